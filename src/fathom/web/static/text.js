// Texts: ages, countdowns, quantities, plurals. Pure.

const MINUTE = 60, HOUR = 3600, DAY = 86400;

// The server's clock: a browser's may be off, and ages are the server's.
let skewMs = 0;
export const setServerTime = (header) => {
  const at = Date.parse(header ?? "");
  // A second is all that the header tells.
  if (!Number.isNaN(at) && Math.abs(at + 500 - Date.now() - skewMs) > 1500) skewMs = at + 500 - Date.now();
};
export const serverNow = () => Date.now() + skewMs;

export const millis = (time) => (typeof time === "number" ? time : Date.parse(time ?? ""));

// 75 -> "1m15s", as the command line writes durations: at most two units.
export function duration(seconds) {
  const total = Math.max(0, Math.round(seconds));
  if (!Number.isFinite(total)) return "";
  if (total < 2 * MINUTE) return total < MINUTE ? `${total}s` : `1m${pad(total - MINUTE)}`;
  if (total < 10 * MINUTE) return `${Math.floor(total / MINUTE)}m${pad(total % MINUTE)}`;
  if (total < 3 * HOUR) return `${Math.floor(total / MINUTE)}m`;
  if (total < 8 * HOUR) return `${Math.floor(total / HOUR)}h${padMinutes((total % HOUR) / MINUTE)}`;
  if (total < 2 * DAY) return `${Math.floor(total / HOUR)}h`;
  return `${Math.floor(total / DAY)}d`;
}
const pad = (seconds) => (seconds ? `${seconds}s` : "");
const padMinutes = (minutes) => (Math.floor(minutes) ? `${Math.floor(minutes)}m` : "");

// How long ago; "" for no time.
export function age(time, now = serverNow()) {
  const at = millis(time);
  return Number.isNaN(at) ? "" : duration((now - at) / 1000);
}

// How long until; "over" afterwards.
export function countdown(time, now = serverNow()) {
  const at = millis(time);
  if (Number.isNaN(at)) return "";
  return at <= now ? "over" : clock((at - now) / 1000);
}

// 4:09 or 1:04:09: a number that does not jump in width.
export function clock(seconds) {
  const total = Math.max(0, Math.ceil(seconds));
  const [hours, minutes, rest] = [Math.floor(total / HOUR), Math.floor((total % HOUR) / MINUTE), total % MINUTE];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

const TIME = new Intl.DateTimeFormat(undefined, {hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"});
const DATE_TIME = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

// The time of day; with the date if that is another day.
export function when(time, now = serverNow()) {
  const at = millis(time);
  if (Number.isNaN(at)) return "";
  const today = new Date(at).toDateString() === new Date(now).toDateString();
  return (today ? TIME : DATE_TIME).format(at);
}

export const fullTime = (time) => (Number.isNaN(millis(time)) ? "" : DATE_TIME.format(millis(time)));

// 12345 -> "12,345". Intl takes longer than all the rest of a batch.
export const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

export const plural = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

const NAMES = new Intl.Collator("en", {numeric: true});
export const byName = NAMES.compare;  // node-2 before node-10.

export const listed = (words) => (words.length < 2 ? words.join("")
  : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);

// Quantities of Kubernetes: "250m" -> 0.25, "1Gi" -> 1073741824.
const SUFFIXES = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};
const QUANTITY = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]{0,2})$/;

export function quantity(text) {
  const matched = QUANTITY.exec(String(text ?? "").trim());
  if (!matched || !(matched[2] in SUFFIXES)) return 0;
  return Number(matched[1]) * SUFFIXES[matched[2]] || 0;
}

export const cpu = (cores) => (cores >= 10 ? cores.toFixed(0) : cores >= 1 ? trim(cores.toFixed(1)) : `${Math.round(cores * 1000)}m`);

export function memory(bytes) {
  for (const unit of ["Ti", "Gi", "Mi", "Ki"]) {
    const value = bytes / SUFFIXES[unit];
    if (value >= 1) return `${value >= 10 ? Math.round(value) : trim(value.toFixed(1))}${unit}`;
  }
  return `${Math.round(bytes)}`;
}
const trim = (text) => text.replace(/\.0$/, "");

export const percent = (share) => `${Math.round(share * 100)}%`;

// "deployments.apps" -> "Deployment": as people write kinds.
const KINDS = {
  pods: "Pod", "deployments.apps": "Deployment", "replicasets.apps": "ReplicaSet", "jobs.batch": "Job",
  services: "Service", nodes: "Node", "horizontalpodautoscalers.autoscaling": "HorizontalPodAutoscaler",
  "poddisruptionbudgets.policy": "PodDisruptionBudget", "scheduleroverrides.fathom.dev": "SchedulerOverride",
  "policyrollouts.fathom.dev": "PolicyRollout", "cronjobs.batch": "CronJob", "statefulsets.apps": "StatefulSet",
  "daemonsets.apps": "DaemonSet", "tenantquotas.fathom.dev": "TenantQuota", "workloadprogresses.fathom.dev": "WorkloadProgress",
  configmaps: "ConfigMap", secrets: "Secret", namespaces: "Namespace", events: "Event", persistentvolumeclaims: "PersistentVolumeClaim",
};
export const kindOf = (resource) => KINDS[resource] ?? String(resource ?? "").split(".")[0];

const WORKLOADS = new Set(["Deployment", "ReplicaSet", "Job"]);

// The page about an object; null where there is none. `ref`: {resource or kind, namespace, name}.
export function pageOf(ref) {
  const kind = ref.kind ?? kindOf(ref.resource);
  const part = encodeURIComponent;
  if (kind === "Pod") return `#/pod/${part(ref.namespace)}/${part(ref.name)}`;
  if (WORKLOADS.has(kind)) return `#/workload/${part(ref.namespace)}/${part(kind)}/${part(ref.name)}`;
  if (kind === "SchedulerOverride") return ref.namespace ? `#/overrides/${part(ref.namespace)}/${part(ref.name)}` : `#/overrides/${part(ref.name)}`;
  return null;
}

// Characters that are obeyed instead of shown, as escapes, in the words of the command line (terminal.py): control
// characters, and marks that turn the reading direction. Line ends and tabs stay.
const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const escaped = (char) => (char < "\u0100" ? `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}` : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
export const visible = (text) => text.replace(OBEYED, escaped);
