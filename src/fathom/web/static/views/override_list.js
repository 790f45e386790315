// The list of overrides: those in force or waiting first, then what has ended; reviews of break-glass; the limits.

import {h, keyed, replace, setText} from "../dom.js";
import {ackCounts, authorText, changesOf, expiryOf, lapsesAt, stateOf} from "../overrides.js";
import {waitsForApproval} from "../override_words.js";
import {card, empty, listTrouble, name, setState, state, tag, until} from "../parts.js";
import {everySecond, live, subscribeAll} from "../store.js";
import {millis, plural, serverNow} from "../text.js";
import {limits} from "./override_limits.js";
import {reviews} from "./override_reviews.js";

const OVER = new Set(["Ended", "Refused", "Lapsed"]);

export function mountList(root, context) {
  context.title("Overrides");
  const {scope} = context, list = live(scope.path("fathom.dev/v1alpha1", "scheduleroverrides"));
  const active = card("In force, or waiting"), over = card("Ended, kept as a record");
  const tables = {active: table("Overrides in force or waiting"), over: table("Overrides that have ended")};
  const lead = h("p", {class: "lead"});

  function render() {
    const trouble = listTrouble(list);
    if (trouble) { setText(lead, ""); return replace(active.body, trouble); }
    const now = serverNow(), all = [...list.values()].sort(byEnd);
    const current = all.filter((each) => !OVER.has(stateOf(each, now)[1])), past = all.filter((each) => OVER.has(stateOf(each, now)[1]));
    setText(active.count, current.length ? String(current.length) : "");
    setText(over.count, past.length ? String(past.length) : "");
    setText(lead, leadText(current, now));
    fill(active.body, tables.active, current, "None: nothing is steered by hand.", now);
    over.section.hidden = !past.length;
    fill(over.body, tables.over, past, "", now);
  }

  const reviewing = reviews(context), limiting = limits();
  replace(root, h("div", {class: "page-head"}, h("h1", {}, "Overrides"), lead, h("a", {class: "button primary", href: "#/overrides/new"}, "New override")),
    h("div", {class: "stack"}, active.section, reviewing.section, over.section, limiting.section));
  const stops = [subscribeAll([list], render), everySecond(() => { if (list.size) render(); }), reviewing.stop, limiting.stop];
  return () => stops.forEach((stop) => stop());
}

const byEnd = (one, other) => (millis(expiryOf(one)) || Infinity) - (millis(expiryOf(other)) || Infinity) || one.metadata.name.localeCompare(other.metadata.name);

function leadText(current, now) {
  const waiting = current.filter(waitsForApproval).length, bad = current.filter((each) => stateOf(each, now)[0] === "bad").length;
  return [current.length ? `${plural(current.length, "override")} in force or waiting` : "nothing is steered by hand",
    waiting ? `${waiting} waiting for approval` : "", bad ? `${bad} in trouble` : ""].filter(Boolean).join(" · ");
}

const COLUMNS = ["State", "Override", "Target", "Changes", "Asked by", "Ends in", "Acknowledged"];

function table(caption) {
  const body = h("tbody");
  const node = h("div", {class: "scroll"}, h("table", {class: "plain override-table"}, h("caption", {class: "visually-hidden"}, caption),
    h("thead", {}, h("tr", {}, COLUMNS.map((each) => h("th", {scope: "col"}, each)))), body));
  node.rows = body;
  return node;
}

function fill(body, node, items, none, now) {
  if (!items.length) return replace(body, none ? empty(none) : null);
  if (body.firstChild !== node) replace(body, node);
  return keyed(node.rows, items, {key: (each) => each.metadata.uid, make: makeRow, update: (row, each) => updateRow(row, each, now)});
}

function makeRow(each) {
  const parts = {state: state("ok", ""), changes: h("td"), end: h("td"), acks: h("td"), why: h("span", {class: "hint override-reason"})};
  const row = h("tr", {"data-row": "override"}, h("td", {}, parts.state),
    h("th", {scope: "row"}, name({kind: "SchedulerOverride", namespace: each.metadata.namespace, name: each.metadata.name}, {withKind: false}), parts.why),
    h("td", {}, h("code", {}, each.spec?.target)), parts.changes, h("td", {}, authorText(each)), parts.end, parts.acks);
  row.parts = parts;
  return row;
}

function updateRow(row, each, now) {
  const {parts} = row, ends = expiryOf(each), acks = ackCounts(each), [kind, word] = stateOf(each, now);
  setState(parts.state, kind, word);
  setText(parts.why, each.spec?.reason ?? "");
  const changes = changesOf(each).join();
  if (row.changes !== changes) replace(parts.changes, h("span", {class: "tags"}, changesOf(each).map((change) => tag(change))));
  row.changes = changes;
  const lapses = waitsForApproval(each) ? lapsesAt(each) : "", time = lapses || ends;
  const end = each.metadata.deletionTimestamp ? "ending" : !time ? "not yet known" : millis(time) > now ? time : "over";
  if (row.end !== end) replace(parts.end, end === time ? until(time, lapses ? "lapses in " : "") : end);
  row.end = end;
  const said = each.metadata.deletionTimestamp ? "" : acks.total ? ackText(acks) : "";
  setText(parts.acks, said);
}

function ackText({honoring, declined, missing, total}) {
  const rest = [declined.length ? `declined by ${declined.join(", ")}` : "", missing.length ? `waits for ${missing.join(", ")}` : ""].filter(Boolean).join("; ");
  return `${honoring} of ${total}${rest ? `: ${rest}` : ""}`;
}
