// Where each entry of a timeline is drawn. Pure.
//
// Left to right is time, but not everywhere at one scale: ten quiet seconds or more are folded to a fixed width, and
// entries of one moment get a little room each, so that a cause is always left of its effect.

import {millis} from "../text.js";

export const LANES = [
  {id: "audit", title: "Writes", sources: ["audit", "admission"]},
  {id: "override", title: "Overrides", sources: ["override"]},
  {id: "cache", title: "Caches", sources: ["cache"]},
  {id: "decision", title: "Decisions", sources: ["decision", "queue"]},
  {id: "event", title: "Events", sources: ["event"]},
  {id: "condition", title: "Conditions", sources: ["condition"]},
];
export const LANE_HEIGHT = 36, AXIS_HEIGHT = 26, PAD = 22;
const QUIET_S = 10, FOLD = 54, STEP = 15, PX_PER_S = 16, TICK = 78;

export const laneOf = (entry) => Math.max(0, LANES.findIndex((lane) => lane.sources.includes(entry.source)));
export const laneY = (lane) => AXIS_HEIGHT + lane * LANE_HEIGHT + LANE_HEIGHT / 2;
export const HEIGHT = AXIS_HEIGHT + LANES.length * LANE_HEIGHT;

// {xs: x of each entry, folds: [{from, to, seconds}], ticks: [{x, time}], width, xOf(time)}
export function layout(entries, zoom) {
  const xs = [], folds = [], ticks = [], anchors = [];
  let x = PAD, ended = null, tick = -TICK;
  for (const entry of entries) {
    const at = millis(entry.time), until = entry.until ? millis(entry.until) : at;
    if (ended !== null) {
      const quiet = (at - ended) / 1000;
      if (quiet >= QUIET_S) {
        folds.push({from: x + STEP / 2, to: x + STEP / 2 + FOLD, seconds: quiet});
        x += FOLD + STEP;
      } else {
        x += Math.max(STEP * zoom, quiet * PX_PER_S * zoom);
      }
    }
    if (x - tick >= TICK) { ticks.push({x, time: entry.time, before: ticks[ticks.length - 1]?.time}); tick = x; }
    xs.push(x);
    if (!anchors.length || at > anchors[anchors.length - 1][0]) anchors.push([at, x]);
    ended = Math.max(ended ?? 0, at, until);
  }
  return {xs, folds, ticks, width: x + PAD + TICK / 2, xOf: (time) => between(anchors, millis(time), 0, 1)};
}

// The value that belongs to `wanted`, between the two nearest pairs; `from` and `to` say which of a pair is which.
function between(pairs, wanted, from, to) {
  if (!pairs.length) return 0;
  let low = 0, high = pairs.length - 1;
  if (wanted <= pairs[low][from]) return pairs[low][to];
  if (wanted >= pairs[high][from]) return pairs[high][to];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (pairs[middle][from] <= wanted) low = middle; else high = middle;
  }
  const [a, b] = [pairs[low], pairs[high]];
  return a[to] + (b[to] - a[to]) * ((wanted - a[from]) / (b[from] - a[from]));
}

// Where what was at x of one layout is in another one of the same entries.
export const moved = (was, is, x) => between(was.xs.map((each, at) => [each, is.xs[at] ?? each]), x, 0, 1);

// The zoom at which everything is visible at once, as far as that can be read.
export function fitting(entries, width) {
  let low = 0.2, high = 6;
  if (layout(entries, high).width <= width) return high > 1.6 ? Math.min(high, 1.6) : high;
  for (let round = 0; round < 12; round++) {
    const middle = (low + high) / 2;
    if (layout(entries, middle).width <= width) low = middle; else high = middle;
  }
  return Math.min(1.6, low);
}

// Times without records, as far as the sentence of a gap tells them: {lane, from, to} in pixels.
const ISO = "(\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z)";
const GAP_FORMS = [[new RegExp(`from ${ISO} to ${ISO}`), (m) => [m[1], m[2]]], [new RegExp(`before ${ISO}`), (m) => [null, m[1]]],
  [new RegExp(`since ${ISO}`), (m) => [m[1], null]]];
const GAP_LANES = [[/audit/, "audit"], [/journal|decision/, "decision"], [/event/i, "event"], [/cache|state of/, "cache"]];

export function gapBands(gaps, placed) {
  return gaps.map((gap) => {
    const lane = GAP_LANES.find(([pattern]) => pattern.test(gap.source))?.[1];
    const form = GAP_FORMS.map(([pattern, times]) => { const m = pattern.exec(gap.why); return m && times(m); }).find(Boolean) ?? [null, null];
    const from = form[0] ? placed.xOf(form[0]) : 0, to = form[1] ? placed.xOf(form[1]) : placed.width;
    return {gap, lane: lane ? LANES.findIndex((each) => each.id === lane) : -1, from, to: Math.max(to, from + 8)};
  }).filter((band) => band.lane >= 0);
}
