// The revisions of a Deployment that can be returned to, from its ReplicaSets; who made each, from the audit log.

import {h, replace, setText} from "../dom.js";
import {card, command, empty, listTrouble, since, state} from "../parts.js";
import {millis, plural} from "../text.js";
import {typed} from "../typed.js";
import {redraw} from "./why_parts.js";

const REVISION = "deployment.kubernetes.io/revision", CAUSE = "kubernetes.io/change-cause", HASH = "pod-template-hash";
const CONTROLLER = "deployments", CHANGES_SHOWN = 4;

export function history() {
  const {section, body, count} = card("Rollout history", {className: "history"});
  return {section, update(list, deployment, replicaSets, timeline, tool) {
    const trouble = listTrouble(list);
    if (trouble) return replace(body, trouble);
    const rows = revisions(replicaSets);
    setText(count, plural(rows.length, "revision"));
    if (!rows.length) return redraw(body, null, () => empty("It has no revision yet."));
    const shown = rows.map((row, at) => ({...row, changes: at + 1 < rows.length ? templateChanges(rows[at + 1].template, row.template) : [],
      ...originOf(timeline, row.set, deployment)}));
    return redraw(body, [shown.map(({template, set, ...rest}) => rest), tool],
      () => h("ol", {class: "revision-rows"}, shown.map((row, at) => revisionRow(row, deployment, at === 0))));
  }};
}

// The newest first: {number, set, template, images, wanted, ready, cause}.
export function revisions(replicaSets) {
  return replicaSets.map((set) => ({
    number: Number(set.metadata.annotations?.[REVISION] ?? 0), set, template: set.spec?.template ?? {},
    images: (set.spec?.template?.spec?.containers ?? []).map((each) => each.image), wanted: set.spec?.replicas ?? 0, ready: set.status?.readyReplicas ?? 0,
    cause: set.metadata.annotations?.[CAUSE] ?? "",
  })).filter((row) => row.number).sort((one, other) => other.number - one.number);
}

function revisionRow(row, deployment, newest) {
  const {namespace, name} = deployment.metadata;
  const used = row.wanted ? state(row.ready === row.wanted ? "ok" : "warn", `${row.ready} of ${row.wanted} ready`) : state("idle", "no pods");
  return h("li", {class: newest ? "revision-row newest" : "revision-row", "data-row": "revision"},
    h("div", {class: "revision-head"}, h("strong", {}, `revision ${row.number}`), used, since(row.time, "", " ago"),
      row.author ? h("span", {class: "muted"}, `by ${row.author}`) : null),
    h("p", {class: "revision-images"}, row.images.map((image) => h("code", {}, image))),
    row.cause ? h("p", {class: "muted"}, row.cause) : null,
    row.changes.length ? h("ul", {class: "lines muted small"}, row.changes.slice(0, CHANGES_SHOWN).map((text) => h("li", {}, text)),
      row.changes.length > CHANGES_SHOWN ? h("li", {}, `and ${row.changes.length - CHANGES_SHOWN} more changes`) : null) : null,
    newest ? null : command(typed(`kubectl rollout undo deployment/${name} -n ${namespace} --to-revision=${row.number}`)));
}

// What differs between two pod templates, as paths: "main: image a:1 → a:2". Pure.
export function templateChanges(older, newer) {
  const changes = [];
  const names = new Set([...(older.spec?.containers ?? []), ...(newer.spec?.containers ?? [])].map((each) => each.name));
  for (const each of names) {
    const find = (template) => (template.spec?.containers ?? []).find((container) => container.name === each);
    compare(find(older), find(newer), [each], changes);
  }
  const {containers: was, ...before} = older.spec ?? {}, {containers: is, ...after} = newer.spec ?? {};
  compare(before, after, [], changes);
  const labels = (template) => Object.fromEntries(Object.entries(template.metadata?.labels ?? {}).filter(([label]) => label !== HASH));
  compare(labels(older), labels(newer), ["labels"], changes);
  compare(older.metadata?.annotations ?? {}, newer.metadata?.annotations ?? {}, ["annotations"], changes);
  return changes;
}

const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const shown = (value) => (value === undefined ? "none" : typeof value === "string" ? value : JSON.stringify(value));

function compare(older, newer, path, changes) {
  if (JSON.stringify(older) === JSON.stringify(newer)) return;
  if (isMap(older) && isMap(newer)) {
    for (const key of new Set([...Object.keys(older), ...Object.keys(newer)])) compare(older[key], newer[key], [...path, key], changes);
    return;
  }
  const text = `${path.join(" ")}: ${shown(older)} → ${shown(newer)}`;
  changes.push(text.length > 160 ? `${text.slice(0, 159)}…` : text);
}

// Who changed the Deployment so that this ReplicaSet has its revision, and when: along recorded causes, else the last
// change of the template before it. An older ReplicaSet gets a new revision when somebody returns to it.
export function originOf(timeline, set, deployment) {
  const entries = timeline?.entries ?? [], byId = new Map(entries.map((entry) => [entry.id, entry]));
  const writes = (resource, name) => (entry) => entry?.source === "audit" && entry.object?.resource === resource && entry.object.name === name;
  const ofDeployment = writes("deployments.apps", deployment.metadata.name), ofSet = writes("replicasets.apps", set.metadata.name);
  const isChange = (entry) => ofDeployment(entry) && entry.actor !== CONTROLLER;
  const numbered = entries.filter((entry) => ofSet(entry) && (entry.text.startsWith("creates") || entry.text.includes(`[${REVISION}]`))).pop();
  if (!numbered) return {author: "", time: set.metadata.creationTimestamp};
  const before = entries.filter((entry) => isChange(entry) && millis(entry.time) <= millis(numbered.time) && /creates|spec\.template/.test(entry.text));
  const change = causeOf(numbered.id, timeline.edges, (id) => isChange(byId.get(id)));
  return {author: (byId.get(change) ?? before.pop())?.actor ?? "", time: numbered.time};
}

// The nearest entry that led to this one, and that is wanted; "" if none is on record.
function causeOf(id, edges, isWanted) {
  const seen = new Set(), waiting = [id];
  while (waiting.length) {
    const each = waiting.shift();
    if (isWanted(each)) return each;
    if (seen.has(each)) continue;
    seen.add(each);
    for (const edge of edges) if (edge.effect === each) waiting.push(edge.cause);
  }
  return "";
}
