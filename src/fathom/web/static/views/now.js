// Now: what is stuck, worst first; the nodes; the control plane; overrides; fights.

import {h, replace} from "../dom.js";
import {controlPlane} from "./now_control.js";
import {nodeMap} from "./now_map.js";
import {fights, overrides} from "./now_steering.js";
import {stuck} from "./now_stuck.js";

export function mount(root, params, context) {
  context.title("Now");
  const {scope} = context;
  const lead = h("p", {class: "lead", role: "status", "aria-live": "off"});
  // Each part tells what it found in a few words: {kind, text}. Together they are the page's first line.
  const told = new Map();
  const tell = (part) => (summary) => {
    told.set(part, summary);
    showLead(lead, told);
  };
  const parts = [
    stuck(scope, tell("stuck")),
    nodeMap(scope, tell("nodes")),
    controlPlane(tell("control plane")),
    overrides(scope, tell("overrides")),
    fights(tell("fights")),
  ];
  const [worst, map, control, steering, fighting] = parts.map((part) => part.section);
  replace(root,
    h("div", {class: "page-head"}, h("h1", {}, "Now"), lead, scopePicker(scope)),
    h("div", {class: "now"},
      h("div", {class: "now-main"}, worst, map),
      h("div", {class: "now-side"}, control, steering, fighting)));
  return () => parts.forEach((part) => part.stop());
}

const ORDER = ["stuck", "nodes", "control plane", "overrides", "fights"];

function showLead(lead, told) {
  const words = ORDER.map((part) => told.get(part)).filter((each) => each?.text);
  const text = words.map((each) => each.text).join(" · ");
  if (lead.dataset.text === text) return;
  lead.dataset.text = text;
  replace(lead, words.map((each, at) => [at ? h("span", {class: "dot", "aria-hidden": "true"}, " · ") : null, h("span", {class: each.kind}, each.text)]));
}

function scopePicker(scope) {
  const input = h("input", {id: "scope", type: "text", value: scope.namespace, placeholder: "all namespaces", spellcheck: "false", autocomplete: "off", autocapitalize: "off"});
  const form = h("form", {class: "scope", onsubmit: (event) => { event.preventDefault(); scope.namespace = input.value.trim(); }},
    h("label", {for: "scope"}, "Namespace"), input,
    h("button", {type: "submit", class: "quiet"}, "Show"));
  const clear = h("button", {type: "button", class: "quiet", onclick: () => { scope.namespace = ""; }}, "All");
  if (scope.namespace) form.append(clear);
  return form;
}

