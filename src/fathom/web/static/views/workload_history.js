// The revisions of a Deployment that can be returned to, from its ReplicaSets; who made each, from the audit log.

import {h, replace, setText} from "../dom.js";
import {card, command, empty, listTrouble, since, state} from "../parts.js";
import {millis, plural} from "../text.js";
import {typed} from "../typed.js";
import {redraw} from "./why_parts.js";

const REVISION = "deployment.kubernetes.io/revision", CAUSE = "kubernetes.io/change-cause", HASH = "pod-template-hash";
const CHANGES_SHOWN = 4;

export function history() {
  const {section, body, count} = card("Rollout history", {className: "history"});
  return {section, update(list, deployment, replicaSets, timeline, tool) {
    const trouble = listTrouble(list);
    if (trouble) return replace(body, trouble);
    const rows = revisions(replicaSets);
    setText(count, plural(rows.length, "revision"));
    if (!rows.length) return redraw(body, null, () => empty("It has no revision yet."));
    const shown = rows.map((row, at) => ({...row, changes: at + 1 < rows.length ? templateChanges(rows[at + 1].template, row.template) : [],
      author: authorOf(timeline, row.set, deployment)}));
    return redraw(body, [shown.map(({template, set, ...rest}) => rest), tool],
      () => h("ol", {class: "revision-rows"}, shown.map((row, at) => revisionRow(row, deployment, at === 0))));
  }};
}

// The newest first: {number, set, template, images, wanted, ready, made, cause}.
export function revisions(replicaSets) {
  return replicaSets.map((set) => ({
    number: Number(set.metadata.annotations?.[REVISION] ?? 0), set, template: set.spec?.template ?? {},
    images: (set.spec?.template?.spec?.containers ?? []).map((each) => each.image), wanted: set.spec?.replicas ?? 0, ready: set.status?.readyReplicas ?? 0,
    made: set.metadata.creationTimestamp, cause: set.metadata.annotations?.[CAUSE] ?? "",
  })).filter((row) => row.number).sort((one, other) => other.number - one.number);
}

function revisionRow(row, deployment, newest) {
  const {namespace, name} = deployment.metadata;
  const used = row.wanted ? state(row.ready === row.wanted ? "ok" : "warn", `${row.ready} of ${row.wanted} ready`) : state("idle", "no pods");
  return h("li", {class: newest ? "revision-row newest" : "revision-row", "data-row": "revision"},
    h("div", {class: "revision-head"}, h("strong", {}, `revision ${row.number}`), used, since(row.made, "", " ago"),
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

// Who changed the Deployment so that this ReplicaSet was made: along recorded causes, else the last write before it.
export function authorOf(timeline, set, deployment) {
  if (!timeline) return "";
  const byId = new Map(timeline.entries.map((entry) => [entry.id, entry]));
  const isWrite = (entry) => entry.source === "audit" && entry.object?.resource === "deployments.apps" && entry.object.name === deployment.metadata.name;
  const made = timeline.entries.find((entry) => entry.source === "audit" && entry.object?.resource === "replicasets.apps" && entry.object.name === set.metadata.name && entry.text.startsWith("creates"));
  const seen = new Set(), waiting = made ? [made.id] : [];
  while (waiting.length) {
    const id = waiting.shift();
    if (seen.has(id)) continue;
    seen.add(id);
    if (isWrite(byId.get(id) ?? {})) return byId.get(id).actor;
    for (const edge of timeline.edges) if (edge.effect === id) waiting.push(edge.cause);
  }
  const before = timeline.entries.filter((entry) => isWrite(entry) && millis(entry.time) <= millis(set.metadata.creationTimestamp) + 1000 && /creates|template|spec\b/.test(entry.text));
  return before[before.length - 1]?.actor ?? "";
}
