// A timeline as a list, in the words of `fathom timeline`, and all that is known of one entry.

import {h, keyed, setText} from "../dom.js";
import {name, tag} from "../parts.js";
import {duration, millis} from "../text.js";
import {decisionPage} from "./why_parts.js";
import {isTrouble, shape} from "./pod_timeline_drawing.js";

const QUIET_S = 10;
const TIME = new Intl.DateTimeFormat(undefined, {hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23"});
const SECONDS = new Intl.DateTimeFormat(undefined, {hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"});

export const preciseTime = (time) => (Number.isNaN(millis(time)) ? "" : TIME.format(millis(time)));
// Within a second, only what differs: ".512".
export function tickTime(time, before) {
  if (Number.isNaN(millis(time))) return "";
  const text = SECONDS.format(millis(time));
  return before && SECONDS.format(millis(before)) === text ? `.${String(millis(time) % 1000).padStart(3, "0")}` : text;
}

// Each entry with its number, its causes and the silence before it.
export function numbered({entries, edges}) {
  const numbers = new Map(entries.map((entry, at) => [entry.id, at + 1])), causes = new Map();
  for (const edge of edges) if (numbers.has(edge.cause)) (causes.get(edge.effect) ?? causes.set(edge.effect, []).get(edge.effect)).push(edge);
  let ended = null;
  return entries.map((entry) => {
    const at = millis(entry.time), quiet = ended === null ? 0 : (at - ended) / 1000;
    ended = Math.max(ended ?? 0, at, entry.until ? millis(entry.until) : 0);
    const from = (inferred) => (causes.get(entry.id) ?? []).filter((edge) => Boolean(edge.inferred) === inferred).map((edge) => numbers.get(edge.cause)).sort((a, b) => a - b);
    return {entry, number: numbers.get(entry.id), because: from(false), probably: from(true), quiet: quiet >= QUIET_S ? quiet : 0};
  });
}

export const causeWords = ({because, probably}) => [because.length ? `because of ${because.join(", ")}` : "",
  probably.length ? `probably because of ${probably.join(", ")}` : ""].filter(Boolean).join("; ");

export function showRows(list, rows, {selected, select}) {
  keyed(list, rows, {key: (row) => row.entry.id, make: (row) => makeRow(row, select), update: (node, row) => updateRow(node, row, row.entry.id === selected)});
}

function makeRow({entry}, select) {
  const parts = {quiet: h("p", {class: "entry-quiet", hidden: true}), number: h("span", {class: "entry-number"}),
    text: h("span", {class: "entry-text"}), causes: h("span", {class: "entry-causes"}), count: h("span", {class: "muted"})};
  const button = h("button", {type: "button", class: "entry", onclick: () => select(entry.id)}, parts.number,
    h("time", {datetime: entry.time, class: "mono"}, preciseTime(entry.time)), shape(entry.source),
    h("span", {class: "entry-sentence"}, h("strong", {class: "entry-actor"}, entry.actor), " ", parts.text, parts.count, parts.causes));
  const node = h("li", {class: entry.role === "subject" ? "entry-row own" : "entry-row", "data-id": entry.id, "data-row": "entry"}, parts.quiet, button);
  node.parts = {...parts, button};
  return node;
}

function updateRow(node, row, chosen) {
  const {parts} = node, {entry} = row, words = causeWords(row);
  parts.quiet.hidden = !row.quiet;
  setText(parts.quiet, row.quiet ? `… ${duration(row.quiet)}, nothing` : "");
  setText(parts.number, row.number);
  setText(parts.text, entry.text);
  setText(parts.count, entry.count > 1 ? ` (${entry.count} times${entry.until ? `, until ${preciseTime(entry.until)}` : ""})` : "");
  setText(parts.causes, words ? ` (${words})` : "");
  parts.button.setAttribute("aria-current", String(chosen));
  node.classList.toggle("chosen", chosen);
  node.classList.toggle("trouble", isTrouble(entry));
}

// All of one entry: what it is, what it followed from, what came of it.
export function entryDetails(row, timeline, rows, select) {
  const {entry} = row, byId = new Map(rows.map((each) => [each.entry.id, each]));
  const side = (edges, of) => edges.filter((edge) => byId.has(edge[of])).map((edge) => linked(edge, byId.get(edge[of]), select));
  const causes = side(timeline.edges.filter((edge) => edge.effect === entry.id), "cause"),
    effects = side(timeline.edges.filter((edge) => edge.cause === entry.id), "effect");
  return [
    h("p", {class: "entry-title"}, h("span", {class: "muted"}, `${row.number}. `), h("strong", {}, entry.actor), ` ${entry.text}`),
    h("p", {}, tag(entry.source), " ", h("time", {datetime: entry.time, class: "mono"}, preciseTime(entry.time)),
      entry.count > 1 ? ` · ${entry.count} times` : ""),
    h("h4", {}, "Caused by"), causes.length ? h("ul", {class: "lines"}, causes) : h("p", {class: "muted"}, "No cause is on record."),
    effects.length ? [h("h4", {}, "Led to"), h("ul", {class: "lines"}, effects)] : null,
    entry.path ? [h("h4", {}, "The decision"), h("dl", {class: "facts small"}, pathFacts(entry.path))] : null,
    h("dl", {class: "facts small entry-ids"}, facts(entry)),
    entry.ids?.decision ? h("p", {}, h("a", {href: decisionPage(entry.ids.decision, timeline.subject.namespace)}, "All of this decision")) : null,
  ];
}

function linked(edge, row, select) {
  return h("li", {}, h("button", {type: "button", class: "link", onclick: () => select(row.entry.id)},
    `${row.number}. ${row.entry.actor} ${row.entry.text}`), " ",
    h("span", {class: "muted"}, `${edge.kind}, ${edge.inferred ? "inferred" : "recorded"}`));
}

const fact = (term, value) => (value || value === 0 ? [h("dt", {}, term), h("dd", {}, value)] : []);

const facts = ({object, revision, generation, ids = {}}) => [
  fact("object", object ? name(object) : null), fact("revision", revision), fact("generation", generation),
  Object.entries(ids).filter(([kind]) => kind !== "decision").map(([kind, id]) => fact(kind, h("span", {class: "mono"}, id)))];

function pathFacts(path) {
  const waited = path.queuedMs === undefined || path.queuedMs === null ? ""
    : `${Math.round(path.queuedMs * 10) / 10} ms${path.place ? `, ${path.place[0]} of ${path.place[1]} in the queue` : ""}`;
  const listed = (map, words) => Object.entries(map ?? {}).map(words).join(", ");
  return [
    fact("waited", waited),
    fact("read", listed(path.read, ([kind, seen]) => `${kind} at ${Math.max(seen.revision, seen.newest ?? 0)}${seen.ageMs ? ` (${seen.ageMs} ms old)` : ""}`)),
    fact("filters", listed(path.filters, ([reason, nodes]) => `${reason}: ${nodes} nodes`)),
    fact("scores", listed(path.scores, ([node, score]) => `${node} ${score}`)),
    fact("results", (path.results ?? []).map((each) => `${each.result}${each.revision ? ` at ${each.revision}` : ""}${each.check ? ` (${each.check})` : ""}`).join("; ")),
    fact("observed generation", path.observedGeneration), fact("condition", path.condition)];
}
