// Every attempt to place a pod, and the other decisions about it.

import {h, keyed, replace, setText} from "../dom.js";
import {card, empty, heads, problem, since, state} from "../parts.js";
import {plural} from "../text.js";
import {decisionPage} from "./why_parts.js";

export function attemptsCard() {
  const {section, body, count} = card("Attempts to place it", {className: "attempts"});
  const placed = table("Attempts of the scheduler, the newest first"), others = table("Other decisions about the pod, the newest first");
  const rest = h("details", {class: "other-decisions"}, h("summary", {}, "Other decisions about it"), others.node);
  replace(body, h("p", {class: "loading"}, "Asking …"));

  function update(decisions) {
    const sorted = [...decisions].sort((one, other) => other.spec.time.localeCompare(one.spec.time));
    const own = sorted.filter((each) => each.spec.controller.startsWith("scheduler")), other = sorted.filter((each) => !own.includes(each));
    setText(count, plural(own.length, "attempt"));
    setText(rest.firstChild, `Other decisions about it: ${other.length}`);
    rest.hidden = !other.length;
    placed.show(own);
    others.show(other);
    const wanted = own.length ? placed.node : none;
    if (body.firstChild !== wanted) replace(body, wanted, rest);
  }

  const none = empty("No scheduler has decided about it, as far as the journals go back.");
  return {section, update, failed(error) { setText(count, ""); replace(body, problem(error)); }};
}

function table(caption) {
  const rows = h("tbody");
  const node = h("div", {class: "scroll"}, h("table", {class: "plain attempt-table"}, h("caption", {class: "visually-hidden"}, caption),
    h("thead", {}, h("tr", {}, heads(["attempt", "decided", "why", "woken by", "waited", "outcome", "when"], ["waited", "when"]))), rows));
  return {node, show: (decisions) => keyed(rows, decisions, {key: (each) => each.metadata.name, make: makeRow, update: updateRow})};
}

const GOOD = new Set(["bind", "committed", "settled"]), WAITS = new Set(["unschedulable", "gated", "hold"]);

function makeRow(decision) {
  const {spec, metadata} = decision, kind = GOOD.has(spec.verdict) ? "ok" : WAITS.has(spec.verdict) ? "bad" : "idle";
  const place = spec.place ? `, ${spec.place[0]} of ${spec.place[1]} in the queue` : "";
  const node = h("tr", {"data-row": "attempt"},
    h("th", {scope: "row"}, h("a", {href: decisionPage(metadata.name, metadata.namespace)},
      `${spec.controller.startsWith("scheduler") ? "attempt" : spec.controller} ${spec.attempt ?? 1}`)),
    h("td", {}, state(kind, `${spec.verdict}${spec.node ? ` ${spec.node}` : ""}`)), h("td", {class: "attempt-why"}, spec.message ?? ""),
    h("td", {class: "muted"}, [spec.cause?.kind, spec.cause?.text].filter(Boolean).join(": ")),
    h("td", {class: "number"}, spec.queuedMs === undefined ? "" : `${Math.round(spec.queuedMs)} ms${place}`), h("td", {}),
      h("td", {class: "number"}, since(spec.time, "", " ago")));
  node.outcome = node.children[5];
  return node;
}

function updateRow(node, {status = {}}) {
  const last = (status.outcomes ?? [])[status.outcomes?.length - 1];
  setText(node.outcome, last ? `${last.result}${last.revision ? ` at ${last.revision}` : ""}${last.check ? ` (${last.check})` : ""}${last.message ? `: ${last.message}` : ""}` : status.result || "no write needed");
}
