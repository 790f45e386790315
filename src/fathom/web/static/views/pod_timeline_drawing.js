// The drawing of a timeline: a lane for each source, a mark for each entry, an arrow from cause to effect.
// It repeats what the list beside it says, so it is hidden from screen readers.

import {h, replace, s, vars} from "../dom.js";
import {duration, plural} from "../text.js";
import {AXIS_HEIGHT, HEIGHT, LANES, LANE_HEIGHT, gapBands, laneOf, laneY, layout} from "./pod_timeline_layout.js";

// One shape for each source, so that no colour is needed.
const SHAPES = {
  audit: "M-5 -5h10v10h-10z", admission: "M-4 -4h8v8h-8z", override: "M-6 0l3 -5h6l3 5l-3 5h-6z", cache: "M0 -5a5 5 0 1 0 .01 0zM0 -2a2 2 0 1 1 -.01 0z",
  decision: "M0 -7l7 7l-7 7l-7 -7z", queue: "M-2 -6h4v12h-4z", event: "M0 -6l6.5 11h-13z", condition: "M0 -5a5 5 0 1 0 .01 0z",
};
const RADIUS = 8;

export const shape = (source) => s("svg", {class: "shape", viewBox: "-8 -8 16 16", "aria-hidden": "true"}, s("path", {d: SHAPES[source] ?? SHAPES.condition}));

// `timeline`: {entries, edges, gaps}. Fills the canvas; returns {placed, marks, paths} for `highlight`.
export function draw(canvas, timeline, {zoom, select, time}) {
  const {entries, edges, gaps = []} = timeline, placed = layout(entries, zoom), at = new Map(entries.map((entry, index) => [entry.id, index]));
  const paths = edges.map((edge) => [edge, edgePath(edge, entries, at, placed)]).filter(([, path]) => path);
  const marks = new Map(entries.map((entry, index) => [entry.id, mark(entry, index, placed, select)]));
  vars(canvas, {width: `${Math.ceil(placed.width)}px`, height: `${HEIGHT}px`});
  const svg = s("svg", {class: "timeline-svg", width: Math.ceil(placed.width), height: HEIGHT, "aria-hidden": "true"},
    s("defs", {}, arrow("arrow", "", 7), arrow("arrow-chosen", "chosen", 4.2)),
    placed.ticks.map((tick) => [s("line", {class: "tick", x1: tick.x, x2: tick.x, y1: AXIS_HEIGHT - 5, y2: HEIGHT}),
      s("text", {class: "tick-text", x: tick.x, y: AXIS_HEIGHT - 10}, time(tick.time, tick.before))]),
    placed.folds.map(fold),
    paths.map(([, path]) => path), [...marks.values()]);
  replace(canvas, LANES.map((lane, index) => vars(h("div", {class: "lane-stripe"}),
    {top: `${AXIS_HEIGHT + index * LANE_HEIGHT}px`, height: `${LANE_HEIGHT}px`})),
    gapBands(gaps, placed).map(band), svg);
  return {placed, marks, paths};
}

// The chosen entry, all that led to it, and what followed. Only classes change: choosing is quick in a long timeline.
export function highlight({marks, paths}, edges, selected) {
  const chain = selected ? related(edges, selected) : {edges: new Set(), ids: new Set()};
  for (const [id, node] of marks) {
    node.classList.toggle("chosen", id === selected);
    node.classList.toggle("linked", id !== selected && chain.ids.has(id));
  }
  for (const [edge, path] of paths) {
    const chosen = chain.edges.has(edge);
    if (path.classList.toggle("chosen", chosen) || path.dataset.was) path.setAttribute("marker-end", `url(#${chosen ? "arrow-chosen" : "arrow"})`);
    if (chosen) path.dataset.was = "chosen"; else delete path.dataset.was;
  }
}

const arrow = (id, kind, size) => s("marker", {id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: size, markerHeight: size, orient: "auto"},
  s("path", {class: `arrow ${kind}`.trim(), d: "M0 .5L8 4L0 7.5z"}));

function band({gap, lane, from, to}) {
  const node = h("div", {class: "gap-band", title: `no data: ${gap.source}: ${gap.why}`}, h("span", {}, "no data"));
  return vars(node, {left: `${from}px`, wide: `${to - from}px`, top: `${AXIS_HEIGHT + lane * LANE_HEIGHT + 4}px`, height: `${LANE_HEIGHT - 8}px`});
}

function fold({from, to, seconds}) {
  const middle = (from + to) / 2, zigzag = Array.from({length: Math.ceil((HEIGHT - AXIS_HEIGHT) / 8)},
    (_, step) => `${middle + (step % 2 ? 3 : -3)} ${AXIS_HEIGHT + step * 8}`);
  return s("g", {class: "fold"}, s("path", {d: `M${zigzag.join("L")}`}),
    s("text", {class: "fold-text", x: middle, y: HEIGHT - 4}, `… ${duration(seconds)}`), s("title", {}, `${duration(seconds)}, nothing`));
}

function edgePath(edge, entries, at, placed) {
  const from = at.get(edge.cause), to = at.get(edge.effect);
  if (from === undefined || to === undefined) return null;
  const [x1, x2] = [placed.xs[from], placed.xs[to]], [y1, y2] = [laneY(laneOf(entries[from])), laneY(laneOf(entries[to]))];
  return s("path", {class: `edge ${edge.inferred ? "inferred" : "recorded"}`, d: curve(x1, y1, x2, y2), "marker-end": "url(#arrow)",
    "data-cause": edge.cause, "data-effect": edge.effect, "data-kind": edge.kind});
}

// From lane to lane an S, within a lane an arc above its marks.
function curve(x1, y1, x2, y2) {
  if (y1 === y2) return `M${x1} ${y1 - RADIUS}Q${(x1 + x2) / 2} ${y1 - RADIUS - Math.min(16, 6 + (x2 - x1) / 8)} ${x2 - 2} ${y2 - RADIUS}`;
  const down = Math.sign(y2 - y1), bend = Math.max(14, Math.abs(y2 - y1) / 2);
  return `M${x1} ${y1 + down * RADIUS}C${x1} ${y1 + down * bend} ${x2} ${y2 - down * bend} ${x2} ${y2 - down * (RADIUS + 1)}`;
}

function mark(entry, index, placed, select) {
  const x = placed.xs[index], y = laneY(laneOf(entry));
  const classes = ["entry-mark", entry.source, entry.role === "subject" ? "own" : "", isTrouble(entry) ? "trouble" : ""].filter(Boolean).join(" ");
  const until = entry.until ? placed.xOf(entry.until) : x;
  return s("g", {class: classes, transform: `translate(${x.toFixed(1)} ${y})`, "data-id": entry.id, onclick: () => select(entry.id)},
    s("title", {}, `${index + 1}. ${entry.actor} ${entry.text}`),
    until > x + 4 ? s("path", {class: "lasting", d: `M0 0H${(until - x).toFixed(1)}`}) : null,
    s("circle", {class: "target", r: 11}), s("path", {class: "mark-shape", d: SHAPES[entry.source] ?? SHAPES.condition}),
    entry.count > 1 ? s("text", {class: "mark-count", x: 8, y: -6}, `×${entry.count}`) : null);
}

export const isTrouble = (entry) => entry.role === "subject" && (/=False/.test(entry.path?.condition ?? "") || (entry.path?.results ?? []).some((each) => ["conflict", "rejected", "unknown"].includes(each.result)));

// All that led to an entry, and what followed from it at once.
export function related(edges, id) {
  const into = new Map(), found = {edges: new Set(), ids: new Set([id])};
  for (const edge of edges) (into.get(edge.effect) ?? into.set(edge.effect, []).get(edge.effect)).push(edge);
  const waiting = [id];
  while (waiting.length) {
    for (const edge of into.get(waiting.pop()) ?? []) {
      found.edges.add(edge);
      if (!found.ids.has(edge.cause)) { found.ids.add(edge.cause); waiting.push(edge.cause); }
    }
  }
  for (const edge of edges) if (edge.cause === id) { found.edges.add(edge); found.ids.add(edge.effect); }
  return found;
}

export const legend = () => h("ul", {class: "legend", "aria-hidden": "true"},
  LANES.map((lane) => h("li", {}, shape(lane.id), lane.title.toLowerCase())),
  h("li", {}, s("svg", {class: "stroke", viewBox: "0 0 24 8"}, s("path", {class: "edge recorded", d: "M0 4H24"})), "cause, recorded"),
  h("li", {}, s("svg", {class: "stroke", viewBox: "0 0 24 8"}, s("path", {class: "edge inferred", d: "M0 4H24"})), "cause, inferred"),
  h("li", {}, h("span", {class: "gap-sample"}), "no data"));

export const summaryOf = ({entries, edges}) => `${plural(entries.length, "entry", "entries")}, ${plural(edges.length, "cause")}`;
