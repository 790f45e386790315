// An override in words: the same sentences as `fathom override show` (cli/steer/override_text.py). Pure, but for the table
// of changes, which the server has (kinds/override_changes.py).

import {get} from "./api.js";
import {changesOf, expiryOf} from "./overrides.js";
import {millis, plural, serverNow, when} from "./text.js";

let asked = null;

// {changes: [{name, about, targets, hoursMax, verb, enforcedBy, risk, undone, form, example}], targets, …}
export function overrideTable() {
  asked ??= get("/ui/override-table");
  asked.catch(() => { asked = null; });
  return asked;
}

export const rowOf = (table, change) => table.changes.find((each) => each.name === change);

// "pauseAutoscaler", "avoidZones eu-west-a, eu-west-b", "trafficWeights eu-west=90"
export function changeText(name, value) {
  if (value === true) return name;
  if (Array.isArray(value)) return `${name} ${value.join(", ")}`;
  if (value && typeof value === "object") return `${name} ${Object.entries(value).map(([key, each]) => `${key}=${Array.isArray(each) ? each.join("|") : each}`).join(", ")}`;
  return `${name} ${value}`;
}

export const where = (scope) => (!scope || scope === "cluster" ? "everywhere in the cluster" : scope);

export function concerns(status) {
  const radius = status?.blastRadius;
  if (!radius) return "no data: the server has not counted what it concerns";
  const {pods = 0, nodes = 0, tenants = 0, zonePercent = 0, belowMinimum = 0} = radius;
  return [plural(pods, "pod"), plural(nodes, "node"), plural(tenants, "tenant"), `at most ${zonePercent} % of a zone's nodes`,
    ...(belowMinimum ? [`${plural(belowMinimum, "workload")} left below the minimum of replicas`] : [])].join(", ");
}

export const waitsForApproval = ({status = {}}) => Boolean(status.approval?.required) && (status.approval.approved ?? null) === null;

export function approvalText(override, table) {
  const {approval, author = "its author"} = override.status ?? {};
  if (!approval || (!approval.required && (approval.approved ?? null) === null)) return `not needed${riskyText(override, table)}`;
  if ((approval.approved ?? null) === null) return `needed: nothing is in force before somebody other than ${author} approves it`;
  return `${approval.approved ? "approved" : "refused"} by ${approval.approver} at ${when(approval.approvedAt)}${approval.specHash ? `, spec ${approval.specHash.slice(0, 12)}` : ""}`;
}

function riskyText(override, table) {
  const risky = changesOf(override).some((name) => rowOf(table, name)?.risk === "high" && name !== "breakGlassRole");
  return risky ? " (it is risky, and the SteeringLimits have approvals off)" : "";
}

const UNDONE = {"by itself": "over at once", "by action": "undone by the override controller", stays: "what was done under it stays"};

export function endLines(override, table) {
  const names = changesOf(override);
  const lines = Object.entries(UNDONE).flatMap(([undone, words]) => {
    const listed = names.filter((name) => rowOf(table, name)?.undone === undone);
    return listed.length ? [`${listed.join(", ")}: ${words}`] : [];
  });
  if (names.includes("breakGlassRole")) lines.push("somebody else reviews what was done");
  const moves = override.spec?.onEnd === "move";
  if (names.some((name) => rowOf(table, name)?.undone === "stays")) lines.push(`pods that it placed ${moves ? "are evicted" : "stay"} (onEnd: ${moves ? "move" : "keep"})`);
  return lines;
}

export function untilText(override, now = serverNow()) {
  const {metadata, spec = {}, status = {}} = override, ends = expiryOf(override);
  const extended = status.extensions ? `; extended ${plural(status.extensions, "time")}` : "";
  if (waitsForApproval(override)) return `${spec.expiresAfter} after its approval${extended}`;
  if (!ends) return `no end is known, so it is not in force (expiresAfter: ${spec.expiresAfter})`;
  if (metadata.deletionTimestamp) return `${when(metadata.deletionTimestamp)} (it was ended), instead of ${when(ends)}${extended}`;
  return `${when(ends)}${millis(ends) <= now ? " (it has ended)" : ""}, ${spec.expiresAfter} after it was written${extended}`;
}

export const conditionOf = (override, type) => (override.status?.conditions ?? []).find((each) => each.type === type);

// The proof of the end of this generation; undefined while there is none.
export function proofOf(override) {
  const proof = conditionOf(override, "RepairComplete");
  return proof && (proof.observedGeneration ?? 0) >= (override.metadata.generation ?? 0) ? proof : undefined;
}

export const holdsProof = (override) => (override.metadata.finalizers ?? []).some((each) => each.startsWith("fathom.dev/"));

// "45m", "1h30m", "90s" -> seconds; NaN for anything else.
export function seconds(text) {
  const trimmed = String(text ?? "").trim();
  if (!/^(\d+(\.\d+)?(h|m|s|ms))+$/.test(trimmed)) return NaN;
  const units = {h: 3600, m: 60, s: 1, ms: 0.001};
  return [...trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)].reduce((sum, [, number, unit]) => sum + Number(number) * units[unit], 0);
}
