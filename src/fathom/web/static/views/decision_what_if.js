// What if an object were different: asked of the decider, and written nowhere.

import {ask} from "../api.js";
import {h, replace} from "../dom.js";
import {card, command, problem, state} from "../parts.js";

const CHANGES_MAX = 16;

// `unbound()`: the patch that takes the pod off its node, where it has one: else nothing would be decided.
export function whatIf({subject, namespace, answered, suggestions, unbound}) {
  const {section, body} = card("What if", {className: "what-if", intro: "Assume a change, and see what would be decided. Nothing is written."});
  const changes = h("div", {class: "changes"}), result = h("div", {class: "what-if-result", "aria-live": "polite"});
  const button = h("button", {type: "submit", class: "primary"}, "Ask");
  const chips = h("div", {class: "chips"});
  const form = h("form", {onsubmit: (event) => { event.preventDefault(); question(); }}, changes,
    h("div", {class: "form-end"}, button, h("button", {type: "button", class: "quiet", onclick: () => addChange().querySelector("input").focus()},
      "Another change"), h("button", {type: "button", class: "quiet", onclick: clear}, "Clear")));
  let turn = 0, numbers = 0;

  function addChange(object = "", patch = "") {
    const id = `change-${++numbers}`;
    const row = h("div", {class: "change-row"},
      h("label", {for: `${id}-object`}, "Object"), h("input", {type: "text", id: `${id}-object`, value: object, placeholder: "node/node-1",
        spellcheck: "false", autocomplete: "off", autocapitalize: "off"}),
      h("label", {for: `${id}-patch`}, "JSON merge patch; null deletes it"),
        h("textarea", {id: `${id}-patch`, rows: "2", spellcheck: "false", placeholder: '{"spec":{"unschedulable":false}}'}, patch));
    if (changes.childElementCount >= CHANGES_MAX) changes.firstElementChild.remove();
    changes.append(row);
    return row;
  }

  function asked() {
    return [...changes.children].map((row) => [row.querySelector("input").value.trim(), row.querySelector("textarea").value.trim()])
      .filter(([object, patch]) => object || patch).map(([object, patch]) => `${object}=${patch || "{}"}`);
  }

  async function question() {
    const mine = ++turn, own = asked(), texts = own.length ? [...unbound(), ...own] : [];
    if (!texts.length) return replace(result, h("p", {class: "problem"}, "Name an object as KIND/NAME, such as node/node-1, and a patch for it."));
    button.disabled = true;
    replace(result, h("p", {class: "loading"}, "Asking …"));
    try {
      const answer = await ask("explanations", {subject, whatIf: texts}, namespace);
      if (mine === turn) { show(answer, own, texts); answered(answer); }
    } catch (error) {
      if (mine === turn) { replace(result, problem(error)); answered(null); }
    }
    button.disabled = false;
  }

  function show(answer, own, texts) {
    const typed = `fathom why ${subject.kind.toLowerCase()}/${subject.name} -n ${namespace} ${texts.map((text) => `--what-if '${text.replaceAll("'", "'\\''")}'`).join(" ")}`;
    replace(result, own.map((text) => h("p", {class: "hint"}, "If ", h("code", {}, text.slice(0, text.indexOf("="))), " had ",
      h("code", {}, text.slice(text.indexOf("=") + 1)), texts.length > own.length ? ", and the pod had no node yet:" : ":")),
      h("p", {class: "result-line"}, state(answer.now?.node ? "ok" : "bad", outcome(answer))),
      h("p", {}, answer.summary), command(typed));
  }

  function clear() {
    turn++;
    replace(changes);
    addChange();
    replace(result);
    answered(null);
  }

  function suggest(decision, answer) {
    const list = suggestions(decision, answer), text = JSON.stringify(list);
    if (chips.dataset.text === text) return;
    chips.dataset.text = text;
    replace(chips, list.map(([label, object, patch]) => h("button", {type: "button", class: "chip",
      onclick: () => { replace(changes); addChange(object, patch); question(); }}, label)));
  }

  addChange();
  replace(body, chips, form, result);
  return {section, suggest};
}

const FITTING = {placed: "is placed", queued: "would be placed", unschedulable: "still fits no node", gated: "still waits for its gates",
  preempting: "would wait for an eviction"};
export const outcome = (answer) => answer.now?.answer || FITTING[answer.stage] || answer.verdict;
