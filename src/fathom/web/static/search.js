// Search: a workload or pod by name, from the live lists, as a combobox.

import {h, replace, setText} from "./dom.js";
import {dialog} from "./parts.js";
import {live, subscribeAll} from "./store.js";
import {byName, pageOf, plural} from "./text.js";

const SHOWN_MAX = 12;

export function openSearch(scope) {
  if (document.querySelector("dialog[open]")) return;
  const pods = live(scope.path("v1", "pods")), progress = live(scope.path("fathom.dev/v1alpha1", "workloadprogresses"));
  const input = h("input", {type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-autocomplete": "list", "aria-label": "Name of a workload or pod", placeholder: "Name, or namespace/name", autocomplete: "off", spellcheck: "false"});
  const found = h("ul", {id: "found", role: "listbox", "aria-label": "Matches", class: "found"});
  const count = h("p", {class: "hint", role: "status"});
  const box = dialog("Search", "search", input, found, count);
  let matches = [], chosen = 0;

  const render = () => {
    const words = input.value.trim().toLowerCase();
    const all = words ? matching(words, progress, pods) : [];
    matches = all.slice(0, SHOWN_MAX);
    chosen = Math.min(chosen, Math.max(0, matches.length - 1));
    replace(found, matches.map((each, at) => h("li", {role: "option", id: `found-${at}`, "aria-selected": String(at === chosen), onclick: () => go(each)},
      h("span", {class: "name-kind"}, each.kind), h("span", {}, `${each.namespace}/`, h("strong", {}, each.name)))));
    if (matches.length) input.setAttribute("aria-activedescendant", `found-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
    setText(count, !words ? "Workloads first, then pods." : all.length > SHOWN_MAX ? `${plural(all.length, "match", "matches")}: type more` : all.length ? "" : "No workload or pod has such a name.");
  };
  const go = (each) => { box.close(); location.hash = pageOf(each); };

  input.addEventListener("input", () => { chosen = 0; render(); });
  input.addEventListener("keydown", (event) => {
    const by = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (by && matches.length) { chosen = (chosen + by + matches.length) % matches.length; render(); event.preventDefault(); }
    if (event.key === "Enter" && matches[chosen]) { event.preventDefault(); go(matches[chosen]); }
  });
  const stop = subscribeAll([pods, progress], render);
  box.addEventListener("close", stop);
  input.focus();
  render();
}

function matching(words, progress, pods) {
  const found = [];
  for (const each of progress.values()) consider(found, words, {kind: each.spec.workload.kind, namespace: each.metadata.namespace, name: each.spec.workload.name});
  const workloads = found.splice(0).sort(byPlace);
  for (const each of pods.values()) consider(found, words, {kind: "Pod", namespace: each.metadata.namespace, name: each.metadata.name});
  return [...workloads, ...found.sort(byPlace)];
}

// Earlier matches first: typing "web" wants web, not my-web.
const byPlace = (one, other) => one.at - other.at || byName(one.name, other.name);

function consider(found, words, ref) {
  const text = words.includes("/") ? `${ref.namespace}/${ref.name}` : ref.name;
  const at = text.toLowerCase().indexOf(words);
  if (at >= 0) found.push({...ref, at});
}

