// What lists show of an override: the same words as `fathom override list` (kinds/override_summary.py). Pure.

import {millis, serverNow} from "./text.js";

export const changesOf = (override) => Object.entries(override.spec?.changes ?? {})
  .filter(([, value]) => value !== "" && value !== null && !(Array.isArray(value) && !value.length) && !(typeof value === "object" && !Object.keys(value).length))
  .map(([name]) => name);

// "jane", or "jane, through assistant X 1.0 via fathom mcp". Of runs too.
export const authorText = ({spec = {}, status = {}}) => `${status.author || "unknown"}${spec.requestedThrough ? `, through ${spec.requestedThrough}` : ""}`;

// When it ends; "" while that is not known: it may wait for an approval.
export const expiryOf = (override) => override.status?.expiresAt ?? "";

// When it lapses, because nobody has approved it; "" for one that waits for no approval.
const LAPSES_MS = 3_600_000;
export function lapsesAt({status = {}}) {
  const {required, approved, requestedAt} = status.approval ?? {};
  return required && approved !== true && requestedAt ? new Date(millis(requestedAt) + LAPSES_MS).toISOString() : "";
}

const belongs = (acknowledger, controller) => acknowledger === controller
  || (controller === "scheduler" && (acknowledger.startsWith("scheduler-") || acknowledger.startsWith("scheduler/")));

// {honoring, declined, missing, total}: the affected controllers, by what they say of this generation.
export function ackCounts(override) {
  const affected = override.status?.affectedControllers ?? [], generation = override.metadata.generation ?? 0;
  const said = (controller) => {
    const entries = (override.status?.acknowledgements ?? []).filter((each) => belongs(each.controller, controller));
    if (!entries.length || entries.some((each) => (each.observedGeneration ?? 0) < generation || !["Honoring", "Declined"].includes(each.state))) return "";
    return entries.some((each) => each.state === "Declined") ? "Declined" : "Honoring";
  };
  const states = affected.map((controller) => [controller, said(controller)]);
  const those = (wanted) => states.filter(([, each]) => each === wanted).map(([controller]) => controller);
  return {honoring: those("Honoring").length, declined: those("Declined"), missing: those(""), total: affected.length};
}

// [mark, word] for parts.state().
export function stateOf(override, now = serverNow()) {
  const {status = {}} = override, approval = status.approval, over = [expiryOf(override), lapsesAt(override)].some((time) => millis(time) <= now);
  if (status.residue?.length) return ["bad", "Residue"];
  if (override.metadata.deletionTimestamp) return ["busy", "Ending"];
  if (approval?.approved === false) return ["idle", "Refused"];
  if (approval?.required && approval.approved !== true) return over ? ["idle", "Lapsed"] : ["busy", "Waiting for approval"];
  if (over) return ["idle", "Ended"];
  const acks = ackCounts(override);
  if ((status.conditions ?? []).some((each) => each.type === "Degraded" && each.status === "True")) return ["bad", "Degraded"];
  if (acks.declined.length) return ["warn", "Declined"];
  if (acks.missing.length) return ["busy", `Observed ${acks.honoring}/${acks.total}`];
  const changes = status.changes ?? [];
  return changes.length && changes.every((each) => each.state === "NoMatch") ? ["warn", "NoMatch"] : ["ok", "Active"];
}
