// Parts that several views use. All of them return elements; classes are in style.css.
//
//   state("bad", "not ready")     a mark and a word: never a colour alone. ok, warn, bad, busy, idle
//   since(time), until(time)      an age or a countdown that goes on by itself
//   command("fathom why …")       a command with a button that copies it
//   name({resource, namespace, name})   an object, with a link to its page where there is one
//   heads(["kind", "used"], ["used"])   cells of a table's head; those of numbers at the right
//   tag("probe"), meter(share, "3 of 4 cores"), card("Title", …), empty("nothing is stuck"), problem(error)

import {announce, h, setText, vars} from "./dom.js";
import {age, countdown, fullTime, kindOf, pageOf} from "./text.js";

const MARKS = {ok: "●", warn: "▲", bad: "■", busy: "◐", idle: "○"};

export function state(kind, word, title) {
  return h("span", {class: `state ${kind}`, title}, h("span", {class: "state-mark", "aria-hidden": "true"}, MARKS[kind] ?? "○"), h("span", {class: "state-word"}, word));
}

export function setState(node, kind, word) {
  if (node.className !== `state ${kind}`) node.className = `state ${kind}`;
  setText(node.firstChild, MARKS[kind] ?? "○");
  setText(node.lastChild, word);
}

export const tag = (text, kind = "") => h("span", {class: `tag ${kind}`.trim()}, text);

export function since(time, before = "", after = "") {
  return h("time", {datetime: time, title: fullTime(time), "data-age": time, "data-before": before, "data-after": after}, `${before}${age(time)}${after}`);
}

export function until(time, before = "", after = "") {
  return h("time", {datetime: time, title: fullTime(time), "data-until": time, "data-before": before, "data-after": after, class: "countdown"}, `${before}${countdown(time)}${after}`);
}

// Called once a second: all ages and countdowns of the page.
export function tickTimes(now) {
  for (const node of document.querySelectorAll("time[data-age], time[data-until]")) {
    const {age: from, until: to, before = "", after = ""} = node.dataset;
    setText(node, `${before}${to ? countdown(to, now) : age(from, now)}${after}`);
  }
}

export function command(text) {
  const button = h("button", {type: "button", class: "copy", "aria-label": `Copy: ${text}`, title: "Copy"}, "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      setText(button, "copied");
      announce("Copied");
    } catch {
      setText(button, "select it");
    }
    setTimeout(() => setText(button, "copy"), 1500);
  });
  return h("span", {class: "command"}, h("code", {}, words(text)), button);
}

// A line ends between words, and in no `--flag`; one that is longer than the line is broken anywhere.
const words = (text) => text.split(" ").flatMap((each, at) => [at ? " " : "", each ? h("span", {class: "word"}, each) : ""]);

export const heads = (titles, numbers = []) => titles.map((text) => h("th", {scope: "col", class: numbers.includes(text) ? "number" : null}, text));

export function name(ref, {withKind = true, withNamespace = true} = {}) {
  const page = pageOf(ref), kind = ref.kind ?? kindOf(ref.resource);
  const words = [withKind ? h("span", {class: "name-kind"}, kind, " ") : null,
    withNamespace && ref.namespace ? h("span", {class: "name-namespace"}, `${ref.namespace}/`) : null,
    h("span", {class: "name-own"}, ref.name)];
  return page ? h("a", {class: "name", href: page}, words) : h("span", {class: "name"}, words);
}

// A share of something, with its words: screen readers get the words, CSS the share.
export function meter(share, words, kind = "") {
  const node = h("span", {class: `meter ${kind}`.trim(), role: "img", "aria-label": words, title: words}, h("span", {class: "meter-fill"}));
  return vars(node, {share: Math.max(0, Math.min(1, share || 0)).toFixed(3)});
}

export function setMeter(node, share, words, kind = "") {
  const className = `meter ${kind}`.trim();
  if (node.className !== className) node.className = className;
  if (node.title !== words) { node.title = words; node.setAttribute("aria-label", words); }
  vars(node, {share: Math.max(0, Math.min(1, share || 0)).toFixed(3)});
}

let headings = 0;

// A section with a heading of level 2. Returns {section, body, count}: count is a text beside the heading.
export function card(title, {className = "", intro} = {}) {
  const id = `card-${++headings}`, count = h("span", {class: "count"}), body = h("div", {class: "card-body"});
  const section = h("section", {class: `card ${className}`.trim(), "aria-labelledby": id},
    h("div", {class: "card-head"}, h("h2", {id}, title), count), intro ? h("p", {class: "intro"}, intro) : null, body);
  return {section, body, count};
}

export const empty = (text) => h("p", {class: "empty"}, text);

// An error, in a sentence, where its answer would have been.
export const problem = (error) => h("p", {class: "problem", role: "alert"}, state("warn", sentence(error)));

export function sentence(error) {
  if (error?.status === 403) return `You may not read this: ${error.message}`;
  return error?.message ?? String(error);
}

// What a live list cannot show, in a sentence; null if it can.
export function listTrouble(list) {
  if (list.state === "refused") return h("p", {class: "problem"}, state("idle", `You may not read this: ${list.error}`));
  return list.state === "reading" ? h("p", {class: "loading"}, "Reading …") : null;
}

// A dialog with a heading and a button that closes it. Returns the dialog, shown.
export function dialog(title, className, ...children) {
  const id = `dialog-${++headings}`;
  const node = h("dialog", {class: `dialog ${className}`, "aria-labelledby": id},
    h("div", {class: "dialog-head"}, h("h2", {id}, title),
      h("button", {type: "button", class: "quiet", onclick: () => node.close()}, "Close ", h("kbd", {}, "Esc"))),
    ...children);
  node.addEventListener("close", () => node.remove());
  node.addEventListener("click", (event) => { if (event.target === node) node.close(); });
  document.body.append(node);
  node.showModal();
  return node;
}

