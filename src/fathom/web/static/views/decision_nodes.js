// Every node, side by side: what was decided, what would be decided now, and what would be with a change.

import {h, keyed, replace, setText} from "../dom.js";
import {card, empty, heads, state} from "../parts.js";
import {plural} from "../text.js";
import {redraw} from "./why_parts.js";

const PAGE = 100;
const COLUMNS = [["node", "node"], ["then", "as decided"], ["thenScore", "points"], ["now", "now"], ["nowScore", "points now"], ["if", "what if"],
  ["ifScore", "points then"]];

export function nodesCard() {
  const {section, body, count} = card("Each node", {className: "decision-nodes"});
  const rows = h("tbody"), head = h("tr"), more = h("button", {type: "button", class: "quiet", hidden: true});
  const table = h("div", {class: "scroll"}, h("table", {class: "plain node-table"},
    h("caption", {class: "visually-hidden"}, "Nodes, with their reasons and points"), h("thead", {}, head), rows));
  const note = h("p", {class: "hint"}, "The journal keeps the points of the chosen node and of its equals; those of now are of all nodes that fit.");
  const rules = h("div");
  let order = {by: "", up: true}, limit = PAGE, last = null;
  more.addEventListener("click", () => { limit += PAGE; update(last); });

  function sortBy(column) {
    order = {by: column, up: order.by === column ? !order.up : column === "node"};
    update(last);
  }

  function update(shown) {
    last = shown;
    const {decided, now, assumed, byRule} = shown, all = merged(decided, now, assumed);
    const columns = COLUMNS.filter(([id]) => (id.startsWith("if") ? assumed : id.startsWith("now") ? now : true));
    header(head, columns, order, sortBy);
    setText(count, all.length ? `${plural(all.length, "node")}, ${all.filter((each) => each.then === "").length} fit` : "");
    if (!all.length) return replace(body, reasonCounts(decided) ?? empty("No node was looked at, or the journal has dropped this detail."));
    if (body.firstChild !== table) replace(body, table, more, note, rules);
    all.sort(sorter(order));
    keyed(rows, all.slice(0, limit), {key: (each) => each.node, make: () => h("tr", {"data-row": "node"}),
      update: (row, each) => updateRow(row, each, columns, decided.chosen)});
    redraw(rules, byRule, (lines) => (lines?.length ? [h("h3", {class: "by-rule"}, "Points now, by rule"),
      h("ul", {class: "lines small"}, lines.map((line) => h("li", {}, line)))] : null));
    more.hidden = all.length <= limit;
    return setText(more, `Show more of ${plural(all.length, "node")}`);
  }

  return {section, update};
}

// {node, then, thenScore, now, nowScore, if, ifScore}: "" is "fits", undefined is not known.
function merged(decided, now, assumed) {
  const byNode = new Map();
  const row = (node) => byNode.get(node) ?? byNode.set(node, {node}).get(node);
  for (const [node, reason] of Object.entries(decided.nodes ?? {})) Object.assign(row(node), {then: reason, thenScore: decided.scores?.[node]});
  for (const each of now ?? []) Object.assign(row(each.node), {now: each.fits ? "" : each.reason, nowScore: each.score ?? undefined});
  for (const each of assumed ?? []) Object.assign(row(each.node), {if: each.fits ? "" : each.reason, ifScore: each.score ?? undefined});
  return [...byNode.values()];
}

function header(head, columns, order, sortBy) {
  const text = JSON.stringify([columns, order]);
  if (head.dataset.text === text) return;
  head.dataset.text = text;
  const focused = head.contains(document.activeElement) ? document.activeElement.dataset.by : "";
  replace(head, columns.map(([id, title]) => h("th", {scope: "col", class: id.endsWith("Score") ? "number" : null, "aria-sort": order.by === id ? (order.up ? "ascending" : "descending") : "none"},
    h("button", {type: "button", class: "sort", "data-by": id, onclick: () => sortBy(id)}, title,
      h("span", {"aria-hidden": "true"}, order.by === id ? (order.up ? " ▲" : " ▼") : "")))));
  if (focused) head.querySelector(`[data-by="${focused}"]`)?.focus();
}

// At first those that fit, the best first; then by reason.
const fits = (each) => (each.then === "" ? 0 : each.then === undefined ? 2 : 1);
const byName = (one, other) => one.node.localeCompare(other.node, "en", {numeric: true});

function sorter({by, up}) {
  if (!by) return (one, other) => fits(one) - fits(other) || (other.thenScore ?? -1) - (one.thenScore ?? -1) || (one.then ?? "").localeCompare(other.then ?? "") || byName(one, other);
  const sign = up ? 1 : -1;
  if (by.endsWith("Score")) return (one, other) => sign * ((one[by] ?? -1) - (other[by] ?? -1)) || byName(one, other);
  if (by === "node") return (one, other) => sign * byName(one, other);
  return (one, other) => sign * (one[by] ?? "\uffff").localeCompare(other[by] ?? "\uffff") || byName(one, other);
}

function updateRow(row, each, columns, chosen) {
  const text = JSON.stringify([each, columns.length, chosen]);
  if (row.dataset.text === text) return;
  row.dataset.text = text;
  row.className = each.node === chosen ? "chosen" : "";
  replace(row, columns.map(([id]) => cell(id, each, chosen)));
}

function cell(id, each, chosen) {
  const value = each[id];
  if (id === "node") return h("th", {scope: "row"}, value, value === chosen ? h("span", {class: "tag chosen-tag"}, "chosen") : null);
  if (id.endsWith("Score")) return h("td", {class: "number"}, value ?? "");
  if (value === undefined) return h("td", {class: "muted"}, "not known");
  const differs = id !== "then" && each.then !== undefined && value !== each.then;
  return h("td", {class: differs ? "differs" : ""}, value === "" ? state("ok", "fits") : value, differs ? h("span", {class: "tag"}, "differs") : null);
}

// For users who may not read nodes.
export function reasonCounts({reasons}) {
  const entries = Object.entries(reasons ?? {});
  if (!entries.length) return null;
  return h("div", {}, h("p", {class: "hint"}, "You may not read nodes: only how many were rejected for which reason."),
    h("table", {class: "plain"}, h("thead", {}, h("tr", {}, heads(["nodes", "reason"], ["nodes"]))),
      h("tbody", {}, entries.map(([reason, many]) => h("tr", {}, h("td", {class: "number"}, many), h("td", {}, reason))))));
}
