// What holds, scales and protects a workload: overrides, autoscaler, budgets, Services, repair, the scheduler's view.

import {h, setText} from "../dom.js";
import {card, empty, name, problem, state} from "../parts.js";
import {plural} from "../text.js";
import {overrideLine, redraw, revisions} from "./why_parts.js";

const NONE = "none", HIDDEN = "you may not read them";

export function steering() {
  const {section, body, count} = card("What holds it", {className: "steering"});
  return {section, update({overrides, autoscalers, budgets, hidden, view, error}) {
    setText(count, overrides.length ? plural(overrides.length, "override") : "");
    return redraw(body, [overrides.map(withoutClock), autoscalers.map(autoscalerData), budgets.map(budgetData), view && viewData(view), hidden,
      error?.message], () => [
      h("dl", {class: "why-rows"},
        overrides.length ? overrides.map((each) => row("override", overrideLine(each))) : row("overrides", h("span", {class: "muted"}, NONE)),
        autoscalers.map((each) => row("autoscaler", autoscalerLine(each, view))),
        autoscalers.length ? null : row("autoscaler", h("span", {class: "muted"}, view?.autoscalerReason?.source ?? (hidden.autoscalers ? HIDDEN : NONE))),
        budgets.length ? budgets.map((each) => row("disruption budget", budgetLine(each)))
          : row("disruption budget", h("span", {class: "muted"}, hidden.budgets ? HIDDEN : NONE)),
        view ? viewRows(view) : null),
      error ? problem(error) : view ? null : empty("Asking …")]);
  }};
}

const row = (label, ...content) => h("div", {class: "why-row"}, h("dt", {}, label), h("dd", {}, content));
const withoutClock = ({endsIn, ...each}) => each;
const autoscalerData = (each) => [each.metadata.name, each.spec?.minReplicas, each.spec?.maxReplicas, each.status?.desiredReplicas, each.status?.conditions];
const budgetData = (each) => [each.metadata.name, each.spec, each.status];
const viewData = ({gaps, ...view}) => view;

function autoscalerLine(each, view) {
  const {minReplicas = 1, maxReplicas} = each.spec ?? {}, {currentReplicas = 0, desiredReplicas = 0} = each.status ?? {};
  const limited = (each.status?.conditions ?? []).find((condition) => condition.type === "ScalingLimited" && condition.status === "True");
  return [name({resource: "horizontalpodautoscalers.autoscaling", namespace: each.metadata.namespace, name: each.metadata.name},
    {withKind: false, withNamespace: false}),
    `: ${currentReplicas} of ${desiredReplicas} wanted, from ${minReplicas} to ${maxReplicas}. `,
    view?.autoscalerReason?.value ?? limited?.message ?? ""];
}

function budgetLine(each) {
  const {disruptionsAllowed = 0, currentHealthy = 0, desiredHealthy = 0, expectedPods = 0} = each.status ?? {};
  const words = disruptionsAllowed ? `${plural(disruptionsAllowed, "pod")} may be evicted` : "no pod may be evicted";
  return [h("strong", {}, each.metadata.name), ": ", state(disruptionsAllowed ? "ok" : "warn", words),
    ` · ${currentHealthy} of ${expectedPods} healthy, ${desiredHealthy} needed`];
}

// The rows of `fathom status` that no other part of the page has. The source of each is its title.
function viewRows(view) {
  const sourced = (label, entry, shown = entry?.value) => (entry ? row(label,
    h("span", {title: entry.source}, entry.value === null ? h("span", {class: "muted"}, entry.source) : String(shown))) : null);
  const repair = view.repairCondition?.value;
  return [
    Object.entries(view.serviceLevels ?? {}).map(([service, entry]) => sourced(`service ${service}`, entry, levels(entry.value))),
    sourced("rollback observed by scheduler", view.rollbackObserved),
    sourced("last scheduling reason", view.lastReason),
    sourced("repair", view.repairCondition, repair ? `${repair.type}=${repair.status}${repair.observedGeneration ? `, observedGeneration=${repair.observedGeneration}` : ""}` : ""),
    row("scheduler's view", revisions(Object.entries(view.cacheRevision ?? {}).map(([kind, used]) => ({kind, applied: used.value ?? 0,
      latest: view.latestRevision?.[kind]?.value ?? undefined})))),
    (view.gaps ?? []).map((gap) => row("no data", `${gap.source}: ${gap.why}`)),
  ];
}

function levels(level) {
  return Object.entries(level?.errorRate ?? {}).filter(([, rate]) => rate !== null)
    .map(([window, rate]) => `error rate ${(rate * 100).toFixed(2)}% in ${window}, SLO burn ${level.burnRate[window].toFixed(1)}`).join("; ");
}
