// The graph as SVG. One stop for the Tab key: arrow keys walk through the nodes, Enter selects one.

import {h, s} from "../dom.js";
import {BOX, COLUMNS, fieldsText, lit, shortName} from "../coupling_model.js";

const HEAD = {w: "writes", k: "kind", r: "decides from it"};
const BOX_HEIGHT = 18;

export function graphOf(layout, {selected, select}) {
  const light = selected ? lit(layout, selected) : null;
  const edges = [...layout.edges].sort((one, other) => weight(one, light) - weight(other, light)).map((each) => edgePath(each, layout, light));
  const nodes = layout.nodes.map((each) => nodeBox(each, {selected, chosen: Boolean(light?.own.has(each.id)), lit: !light || light.nodes.has(each.id), select, first: each === layout.nodes[0], fights: fightsAt(each, layout)}));
  const node = s("svg", {viewBox: `0 0 ${layout.width} ${layout.height}`, class: "graph", role: "group", "aria-label": "Who reads and writes what. Arrow keys walk, Enter selects; the table below says the same.", onkeydown: (event) => walk(event, layout, node)},
    s("defs", {}, arrow("arrow", 5), arrow("arrow-lit", 5), arrow("arrow-fight", 2.6)),
    Object.entries(COLUMNS).map(([column, x]) => s("text", {class: "graph-head", x: x + 4, y: 18}, HEAD[column])),
    layout.heads.map((each) => s("text", {class: "graph-group", x: COLUMNS[each.column] + 4, y: each.y}, each.text)),
    s("g", {"aria-hidden": "true"}, edges), nodes, s("g", {"aria-hidden": "true", class: "fight-labels"}, fightLabels(layout)));
  return node;
}

const weight = (edge, light) => (edge.fights.length ? 4 : 0) + (light?.edges.has(edge.id) ? 2 : 0) + (light?.near.has(edge.id) ? 1 : 0);
const fightsAt = (node, {edges}) => edges.filter((each) => (each.from === node.id || each.to === node.id) && each.fights.length).length;

const arrow = (id, size) => s("marker", {id, viewBox: "0 0 6 6", refX: 6, refY: 3, markerWidth: size, markerHeight: size, orient: "auto", class: id}, s("path", {d: "M0 0 L6 3 L0 6 z"}));

function ends(edge, {at}) {
  const from = at.get(edge.from), to = at.get(edge.to), middle = BOX_HEIGHT / 2;
  return {x1: from.x + BOX[from.column], y1: from.y + middle, x2: to.x, y2: to.y + middle};
}

function edgePath(edge, layout, light) {
  const {x1, y1, x2, y2} = ends(edge, layout), bend = (x2 - x1) / 2;
  const own = light?.edges.has(edge.id), kind = edge.fights.length ? "fight" : own ? "lit" : light?.near.has(edge.id) ? "near" : light ? "dim" : "";
  const marker = edge.fights.length ? "arrow-fight" : own ? "arrow-lit" : "arrow";
  return s("path", {class: `edge ${kind} ${edge.silent ? "silent" : ""}`.trim(), d: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "marker-end": `url(#${marker})`});
}

// The field that is fought over, once for each kind, beside its writers' edges.
function fightLabels(layout) {
  const seen = new Set();
  return layout.edges.filter((each) => each.fights.length).flatMap((edge) => edge.fights.map((fight) => ({edge, fight}))).filter(({edge, fight}) => {
    const key = `${edge.to} ${fight.field}`, first = !seen.has(key);
    seen.add(key);
    return first;
  }).map(({edge, fight}) => {
    const {y1, x2, y2} = ends(edge, layout), text = short(`▲ ${fight.field}`, 28), width = text.length * 7 + 12, x = x2 - 24 - width, y = y2 + (y1 - y2) * 0.12;
    return s("g", {class: "fight-label"}, s("rect", {x, y: y - 10, width, height: 20, rx: 4}), s("text", {x: x + 6, y: y + 4}, text));
  });
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function nodeBox(node, {selected, chosen, lit, select, first, fights}) {
  const width = BOX[node.column], label = node.column === "k" ? node.name : shortName(node.name);
  const about = {w: "writer", k: "kind", r: "reader"}[node.column];
  const focusable = selected ? node.id === selected : first;
  return s("g", {class: `node ${node.column} ${chosen ? "selected" : lit ? "" : "dim"} ${fights ? "fought" : ""} ${node.known ? "" : "person"}`, role: "button", tabindex: focusable ? 0 : -1, "data-id": node.id,
    "aria-pressed": String(node.id === selected), "aria-label": `${about} ${node.name}${fights ? ", in a fight" : ""}`, transform: `translate(${node.x} ${node.y})`,
    onclick: () => select(node.id), onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(node.id); } }},
  s("rect", {width, height: BOX_HEIGHT, rx: 4}), s("text", {x: 8, y: 13}, short(`${fights ? "▲ " : ""}${label}`, node.column === "k" ? 25 : 34)));
}

function walk(event, layout, svg) {
  const current = layout.at.get(event.target.closest?.(".node")?.dataset.id);
  if (!current || !event.key.startsWith("Arrow")) return;
  event.preventDefault();
  const column = sideways(event.key, current.column), own = column === current.column;
  const nodes = layout.nodes.filter((each) => each.column === column).sort((one, other) => one.y - other.y);
  const at = own ? nodes.findIndex((each) => each.id === current.id) + (event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0) : nearest(nodes, current.y);
  const target = nodes[Math.max(0, Math.min(nodes.length - 1, at))];
  const node = target && [...svg.querySelectorAll(".node")].find((each) => each.dataset.id === target.id);
  for (const each of svg.querySelectorAll(".node[tabindex='0']")) each.setAttribute("tabindex", "-1");
  node?.setAttribute("tabindex", "0");
  node?.focus();
}

function sideways(key, column) {
  const order = ["w", "k", "r"], step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
  return order[Math.max(0, Math.min(2, order.indexOf(column) + step))];
}

const nearest = (nodes, y) => nodes.reduce((best, each, at) => (Math.abs(each.y - y) < Math.abs(nodes[best].y - y) ? at : best), 0);

// The same as a table, for whoever does not look at graphs.
export function tableOf(layout, select) {
  const kinds = layout.nodes.filter((each) => each.column === "k").sort((one, other) => one.name.localeCompare(other.name));
  const joined = (id, end, other) => layout.edges.filter((each) => each[end] === id).map((each) => ({edge: each, name: layout.at.get(each[other])?.name ?? ""})).sort((one, two) => one.name.localeCompare(two.name));
  const cell = (all) => h("ul", {class: "plain-list"}, all.map(({edge, name}) => h("li", {}, h("strong", {}, name), h("span", {class: "hint"}, ` ${fieldsText(edge)}${edge.silent ? " · without a call" : ""}${edge.fights.length ? " · in a fight" : ""}`))));
  return h("div", {class: "scroll"}, h("table", {class: "plain"}, h("caption", {class: "visually-hidden"}, "For each kind: who writes it and who decides from it"),
    h("thead", {}, h("tr", {}, ["Kind", "Written by", "Read by"].map((each) => h("th", {scope: "col"}, each)))),
    h("tbody", {}, kinds.map((kind) => h("tr", {"data-row": "kind"}, h("th", {scope: "row"}, h("button", {type: "button", class: "quiet", onclick: () => select(kind.id)}, kind.name)),
      h("td", {}, cell(joined(kind.id, "to", "from"))), h("td", {}, cell(joined(kind.id, "from", "to"))))))));
}
