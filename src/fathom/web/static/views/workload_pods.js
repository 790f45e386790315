// The pods of a workload, the troubled ones first.

import {h, keyed, replace, setText} from "../dom.js";
import {card, empty, heads, listTrouble, name, setState, since, state} from "../parts.js";
import {lastRestart, podState, restarts} from "../pod_state.js";
import {age, millis, plural} from "../text.js";

const PAGE = 50;  // Rows at first: thousands of them would make every change slow.
const ORDER = {bad: 0, warn: 1, busy: 2, idle: 3, ok: 4};

export function podTable() {
  const {section, body, count} = card("Pods", {className: "pods"});
  const rows = h("tbody"), more = h("button", {type: "button", class: "quiet", hidden: true});
  const table = h("div", {class: "scroll"}, h("table", {class: "plain pod-table"},
    h("thead", {}, h("tr", {}, heads(["pod", "state", "node", "restarts", "age", "generation"], ["restarts", "age"]),
      h("th", {scope: "col"}, h("span", {class: "visually-hidden"}, "why")))), rows));
  let limit = PAGE, last = null;
  more.addEventListener("click", () => { limit += PAGE; if (last) update(...last); });

  // `pods`: of the workload. `isOld(pod)`: whether it is of an earlier generation.
  function update(list, pods, isOld) {
    last = [list, pods, isOld];
    const trouble = list ? listTrouble(list) : null;
    if (trouble) return replace(body, trouble);
    const sorted = pods.map((pod) => ({pod, old: isOld(pod), ...podState(pod)})).sort(worstFirst);
    setText(count, summary(sorted));
    if (!sorted.length) return replace(body, empty("It has no pods."));
    if (body.firstChild !== table) replace(body, table, more);
    keyed(rows, sorted.slice(0, limit), {key: (each) => each.pod.metadata.uid, make: makeRow, update: updateRow});
    more.hidden = sorted.length <= limit;
    return setText(more, `Show more of ${plural(sorted.length, "pod")}`);
  }

  return {section, update};
}

const worstFirst = (one, other) => ORDER[one.kind] - ORDER[other.kind] || Number(one.old) - Number(other.old)
  || millis(one.pod.metadata.creationTimestamp) - millis(other.pod.metadata.creationTimestamp) || one.pod.metadata.name.localeCompare(other.pod.metadata.name);

function summary(sorted) {
  const counts = new Map();
  for (const each of sorted) counts.set(each.word, (counts.get(each.word) ?? 0) + 1);
  return [...counts].map(([word, many]) => `${many} ${word}`).join(" · ");
}

function makeRow({pod}) {
  const {metadata} = pod;
  const parts = {state: state("idle", ""), node: h("td", {class: "mono"}), restarts: h("td", {class: "number"}), old: h("td", {}),
    why: h("td", {class: "pod-why"})};
  const node = h("tr", {"data-row": "pod"}, h("th", {scope: "row"}, name({kind: "Pod", namespace: metadata.namespace, name: metadata.name},
    {withKind: false, withNamespace: false})),
    h("td", {}, parts.state), parts.node, parts.restarts, h("td", {class: "number"}, since(metadata.creationTimestamp)), parts.old, parts.why);
  node.parts = parts;
  return node;
}

function updateRow(node, {pod, kind, word, sentence, old}) {
  const {parts} = node, ended = lastRestart(pod), many = restarts(pod);
  setState(parts.state, kind, word);
  setText(parts.node, pod.spec?.nodeName ?? "none");
  setText(parts.restarts, many && ended ? `${many} (${age(ended)} ago)` : many);
  setText(parts.old, old ? "old" : "new");
  setText(parts.why, sentence);
}
