// The two futures of a preview side by side: every count without the override and with it, and what is left of the
// difference after its end. The same rows as `fathom override preview` (cli/steer/preview_text.py). Pure, but for elements.

import {h, vars} from "../dom.js";
import {state, tag} from "../parts.js";

export function futures(object, answer) {
  if (answer.refused) return h("div", {}, state("bad", "The API server would refuse it"), h("p", {}, answer.refused.message));
  return answer.method === "fork" ? forked(object, answer) : whatIf(answer);
}

function whatIf(answer) {
  return [h("p", {}, "What the scheduler would decide, pod by pod. No fork was run: ", answer.reason, "."), notes(answer),
    (answer.whatIf ?? []).length ? h("table", {class: "plain"}, h("thead", {}, h("tr", {}, ["Waiting pod", "Without it", "With it"].map((each) => h("th", {scope: "col"}, each)))),
      h("tbody", {}, answer.whatIf.map((each) => h("tr", {}, h("th", {scope: "row"}, each.pod), h("td", {}, each.now), h("td", {}, each.with))))) : h("p", {class: "empty"}, "No waiting pod is concerned.")];
}

function forked(object, answer) {
  const after = answer.afterTheEnd, same = JSON.stringify(after?.difference) === JSON.stringify(answer.difference);
  return [
    h("p", {class: "hint"}, `Tried in ${answer.seeds.length === 1 ? "1 fork" : `${answer.seeds.length} forks`} of the cluster at revision ${answer.revision}, for ${minutes(answer.seconds)} of virtual time. A range is the smallest and the largest value over the forks.`),
    notes(answer),
    futureTable(`After ${minutes(answer.seconds)}, without it and with it`, object.spec.target, answer.now, answer.without, answer.with),
    answer.difference.length ? null : h("p", {}, state("warn", "It changes none of these counts.")),
    changeStates(answer.override),
    after ? h("div", {class: "after-end"}, h("h3", {}, `What its end does: ${minutes(Math.round((after.seconds - answer.seconds) / 60) * 60)} later`),
      !after.difference.length ? h("p", {}, state("ok", "Both futures are alike in all counts."))
        : same ? h("p", {}, state("warn", "The same counts still differ, and by as much: what it did stays."))
          : futureTable("After its end, without it and with it", object.spec.target, answer.now, after.without, after.with),
      (after.override?.residue ?? []).map((left) => h("p", {}, state("bad", `left of it: ${left.effect} ${left.object}`), ` ${left.message ?? ""}`))) : null,
    h("details", {class: "not-modelled"}, h("summary", {}, `Not in the fork: ${answer.notModelled.map((each) => each.name).join(", ")}`),
      h("dl", {class: "facts"}, answer.notModelled.flatMap((each) => [h("dt", {}, each.name), h("dd", {}, each.message)]))),
    answer.touched.length ? h("p", {class: "hint touched"}, "It rests on: ", answer.touched.slice(0, 12).map((each) => [tag(`${each.kind} ${each.namespace ? `${each.namespace}/` : ""}${each.name}`), " "]), answer.touched.length > 12 ? `and ${answer.touched.length - 12} more` : "") : null,
  ];
}

const minutes = (seconds) => `${Math.round(seconds / 6) / 10} minutes`.replace(/^1 minutes$/, "1 minute");
const notes = (answer) => (answer.notes ?? []).map((each) => h("p", {class: "hint"}, each));

function changeStates(status) {
  const marks = {InForce: "ok", NoMatch: "warn", Declined: "bad"};
  const changes = status?.changes ?? [];
  return changes.length ? h("ul", {class: "plain-list"}, changes.map((each) => h("li", {}, state(marks[each.state] ?? "idle", `${each.name}: ${each.state}`), each.message || each.reason ? h("span", {class: "hint"}, ` ${each.message || each.reason}`) : null))) : null;
}

// Rows.

function values(counts = {}) {
  const zones = Object.entries(counts.bound ?? {}).sort(([one], [other]) => one.localeCompare(other)).map(([zone, pods]) => [zone ? `in zone ${zone}` : "in no zone", pods]);
  return new Map([...zones, ["ready", counts.ready ?? 0], ["without a node", counts.pending ?? 0], ["evicted", counts.evicted ?? 0]]);
}

function others(outcome) {
  const ours = values(outcome?.target), every = values(outcome?.cluster);
  return new Map([...every].map(([label, count]) => [label, count - (ours.get(label) ?? 0)]));
}

export function rows(of, now, without, withIt) {
  const before = without.map(of), after = withIt.map(of), start = of(now);
  const labels = [...new Set([start, ...before, ...after].flatMap((each) => [...each.keys()]))];
  return labels.map((label) => {
    const one = before.map((each) => each.get(label) ?? 0), other = after.map((each) => each.get(label) ?? 0);
    return {label, now: start.get(label) ?? 0, without: one, with: other, change: other.map((count, at) => count - (one[at] ?? 0))};
  });
}

function futureTable(caption, target, now, without, withIt) {
  const start = now ?? {};
  const groups = [[target, (each) => values(each?.target), true], ["other pods", others, false],
    ["replicas wanted", (each) => new Map(Object.entries(each?.replicas ?? {})), false]];
  const bodies = groups.map(([title, of, all]) => {
    const found = rows(of, start, without, withIt).filter((row) => all || row.change.some(Boolean));
    const most = Math.max(1, ...found.flatMap((row) => [row.now, ...row.without, ...row.with]));
    return found.length ? h("tbody", {}, h("tr", {class: "group"}, h("th", {scope: "rowgroup", colspan: 5}, title)), found.map((row) => futureRow(row, most))) : null;
  });
  return h("div", {class: "scroll"}, h("table", {class: "plain future-table"}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("td"), ["Now", "Without it", "With it", "Difference"].map((each) => h("th", {scope: "col"}, each)))), bodies));
}

function futureRow(row, most) {
  const change = row.change.some(Boolean);
  return h("tr", {class: change ? "differs" : ""}, h("th", {scope: "row"}, row.label), h("td", {class: "number"}, String(row.now)), bar(row.without, most, "without"), bar(row.with, most, "with"),
    h("td", {class: "number"}, change ? h("strong", {}, spread(row.change, "+")) : h("span", {class: "muted"}, "same")));
}

const bar = (counts, most, kind) => h("td", {class: `future ${kind}`}, h("span", {class: "future-number"}, spread(counts)),
  vars(h("span", {class: "future-bar", "aria-hidden": "true"}), {least: (Math.max(0, Math.min(...counts)) / most).toFixed(3), most: (Math.max(0, ...counts) / most).toFixed(3)}));

function spread(counts, sign = "") {
  const text = (value) => (sign && value > 0 ? `+${value}` : String(value));
  const least = Math.min(...counts), most = Math.max(...counts);
  return least === most ? text(least) : `${text(least)}..${text(most)}`;
}
