// What a decision followed from, and what is often wondered about it.

import {h} from "../dom.js";
import {since, tag} from "../parts.js";
import {fullTime} from "../text.js";

export function facts({spec, status = {}}) {
  const fact = (term, ...value) => [h("dt", {}, term), h("dd", {}, value)], some = (term, value) => (value ? fact(term, value) : null);
  return [h("dl", {class: "facts"},
    fact("decided", since(spec.time, "", " ago"), `, ${fullTime(spec.time)}`), fact("by", `${spec.controller}, process ${status.process ?? "unknown"}`),
    some("attempt", spec.attempt ?? 1), some("woken by", [spec.cause?.kind, spec.cause?.text].filter(Boolean).join(": ")),
    spec.queuedMs === undefined ? null : fact("waited",
      `${Math.round(spec.queuedMs)} ms${spec.place ? `, ${spec.place[0]} of ${spec.place[1]} in the queue` : ""}`),
    some("generation", spec.subject.generation), some("leader's term", spec.epoch), some("freshness needed", spec.need),
      some("condition", spec.condition), some("nodes looked at", spec.nodes),
    some("priority", spec.priority)),
  considered("Policies", spec.policies), considered("Overrides", spec.overrides), considered("Quotas", spec.quotas),
  spec.rejected?.length ? [h("h3", {}, "Rules that rejected nodes"), h("ul", {class: "lines"},
    spec.rejected.map((each) => h("li", {}, h("strong", {class: "number"}, `${each.nodes} × `), each.rule || "no nodes", " ",
    tag(each.reason || each.boundary), each.remedy ? h("span", {class: "muted"}, ` remedy: ${each.remedy}`) : null)))] : null,
  textList("Evicted for it", spec.victims), textList("Requests", spec.actions),
  textList("Outcomes", (status.outcomes ?? []).map((each) => `${each.result}${each.revision ? ` at ${each.revision}` : ""}${each.check ? ` (${each.check})` : ""}${each.message ? `: ${each.message}` : ""}`)),
  spec.brief ? h("p", {class: "hint"}, "The journal has dropped the detail of this ordinary decision of long ago.") : null];
}

const considered = (title, entries) => (entries?.length ? [h("h3", {}, title),
  h("ul", {class: "lines"}, entries.map((each) => h("li", {}, `${each.name}${each.revision ? ` at ${each.revision}` : ""}`,
  each.decisive ? [" ", tag("decisive")] : null)))] : null);
const textList = (title, texts) => (texts?.length ? [h("h3", {}, title), h("ul", {class: "lines"}, texts.map((text) => h("li", {}, text)))] : null);

// Changes that are often wondered about, from the reasons on record: [label, object, patch].
export function suggestions({spec, status = {}}, answer) {
  const found = [], pod = `pod/${spec.subject.name}`, reasons = JSON.stringify(status.nodes ?? status.reasons ?? {});
  if (spec.node) found.push([`${spec.node} were cordoned`, `node/${spec.node}`, '{"spec":{"unschedulable":true}}']);
  const cordoned = Object.entries(status.nodes ?? {}).find(([, reason]) => /Unschedulable|cordon/i.test(reason));
  if (cordoned) found.push([`${cordoned[0]} were not cordoned`, `node/${cordoned[0]}`, '{"spec":{"unschedulable":false}}']);
  if (/NodeAffinity|nodeSelector/.test(reasons)) found.push(["it had no node selector", pod, '{"spec":{"nodeSelector":null,"affinity":null}}']);
  if (/PodTopologySpread/.test(reasons)) found.push(["it need not be spread", pod, '{"spec":{"topologySpreadConstraints":[]}}']);
  if (answer?.stage === "gated") found.push(["it had no gates", pod, '{"spec":{"schedulingGates":[]}}']);
  const first = Object.keys(status.nodes ?? {})[0];
  if (!spec.node && first && /Insufficient|Fit/.test(reasons)) found.push([`${first} had 1,000 cores`, `node/${first}`,
    '{"status":{"allocatable":{"cpu":"1000"},"capacity":{"cpu":"1000"}}}']);
  return found;
}
