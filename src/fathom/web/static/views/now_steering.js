// What people have changed for a while (overrides), and who undoes whose changes (fights).

import {h, keyed, replace, setText} from "../dom.js";
import {card, empty, listTrouble, name, setState, since, state, tag, until} from "../parts.js";
import {everySecond, live} from "../store.js";
import {kindOf, millis, plural, serverNow} from "../text.js";
import {ackCounts, changesOf, expiryOf, stateOf} from "../overrides.js";

export function overrides(scope, tell) {
  const {section, body, count} = card("Overrides", {className: "overrides"});
  const list = live(scope.path("fathom.dev/v1alpha1", "scheduleroverrides"));
  const rows = h("ul", {class: "override-rows"});

  function render() {
    const trouble = listTrouble(list);
    if (trouble) { tell({kind: "", text: ""}); return replace(body, trouble); }
    const now = serverNow(), active = [...list.values()].filter((each) => !isOver(each, now)).sort(byEnd);
    setText(count, active.length ? String(active.length) : "");
    tell({kind: active.some((each) => stateOf(each, now)[0] === "bad") ? "bad" : "", text: active.length ? plural(active.length, "override") : ""});
    if (!active.length) return replace(body, empty("None: nothing is steered by hand."));
    if (body.firstChild !== rows) replace(body, rows);
    return keyed(rows, active, {key: (each) => each.metadata.uid, make: makeRow, update: (row, each) => updateRow(row, each, now)});
  }

  const stops = [list.subscribe(render), everySecond(() => { if (list.size) render(); })];
  return {section, stop() { stops.forEach((stop) => stop()); }};
}

const isOver = (each, now) => stateOf(each, now)[1] === "Ended" || ["Refused", "Lapsed"].includes(stateOf(each, now)[1]);
const byEnd = (one, other) => (millis(expiryOf(one)) || Infinity) - (millis(expiryOf(other)) || Infinity);

function makeRow(each) {
  const parts = {state: state("ok", ""), acks: h("span", {class: "override-acks"}), end: h("span", {class: "override-end"}), why: h("p", {class: "override-why"})};
  const row = h("li", {class: "override-row", "data-row": "override"},
    h("div", {class: "override-head"}, name({kind: "SchedulerOverride", namespace: each.metadata.namespace, name: each.metadata.name}, {withKind: false}), parts.end),
    h("div", {class: "override-facts"}, parts.state, parts.acks, changesOf(each).map((change) => tag(change))), parts.why);
  row.parts = parts;
  return row;
}

function updateRow(row, each, now) {
  // One that is being deleted has ended: nobody acknowledges that.
  const {parts} = row, gone = each.metadata.deletionTimestamp, ends = gone ?? expiryOf(each), acks = ackCounts(each);
  setState(parts.state, ...stateOf(each, now));
  setText(parts.acks, gone ? "" : `${acks.honoring} of ${acks.total} acknowledged`);
  if (row.shownEnd !== ends) replace(parts.end, gone ? since(gone, "ended ", " ago") : ends ? until(ends, "ends in ") : "no end yet");
  row.shownEnd = ends;
  setText(parts.why, [each.spec?.reason, !gone && acks.missing.length ? `waits for ${acks.missing.join(", ")}` : ""].filter(Boolean).join(" · "));
}

export function fights(tell) {
  const {section, body, count} = card("Fights", {className: "fights"});
  const signals = live("/apis/fathom.dev/v1alpha1/componentsignals");

  function render() {
    const trouble = listTrouble(signals);
    if (trouble) { tell({kind: "", text: ""}); return replace(body, trouble); }
    const found = signals.get("/field-fights")?.status?.fights ?? [];
    setText(count, found.length ? String(found.length) : "");
    tell({kind: "warn", text: found.length ? plural(found.length, "fight") : ""});
    const text = JSON.stringify(found);
    if (body.dataset.text === text) return;
    body.dataset.text = text;
    replace(body, found.length ? h("ul", {class: "fight-rows"}, found.map(fightRow)) : empty("None: no two writers undo each other."));
  }

  return {section, stop: signals.subscribe(render)};
}

function fightRow(fight) {
  const ref = {resource: fight.resource, namespace: fight.namespace, name: fight.name};
  return h("li", {class: "fight-row", "data-row": "fight"},
    h("div", {class: "fight-head"}, state("warn", fight.form === "TwoWriters" ? "two writers" : "oscillates"), name(ref), h("code", {}, fight.field)),
    h("p", {}, fight.text || `${kindOf(fight.resource)} ${fight.name}`));
}
