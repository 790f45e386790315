// A run of a runbook in words: its phase, what stands still, and the command that carries it on. Pure.

import {age, millis, serverNow} from "./text.js";
import {quoted} from "./typed.js";

const MARKS = {Pending: "busy", Running: "busy", Waiting: "warn", Stopped: "bad", Undoing: "busy", Succeeded: "ok", Aborted: "idle", Failed: "bad"};
const STEPS = {Pending: ["idle", "to do"], Acting: ["busy", "writing: its outcome is not known yet"], Acted: ["busy", "done, its expectations are awaited"], Done: ["ok", "done"],
  Failed: ["bad", "failed"], Undoing: ["busy", "is being undone"], Undone: ["idle", "undone"], UndoFailed: ["bad", "could not be undone"], Kept: ["warn", "kept: nothing undoes it"]};
const SILENT_MS = 30_000;  // After that the run may be taken over without a flag.
const GOING = new Set(["Pending", "Running", "Undoing"]);

// Whether somebody other than its author has still to approve it, or has refused it: nobody can carry it out.
const approvalOf = ({status: {phase = "Pending", approval = {}} = {}}) => (phase === "Pending" && approval.required && approval.approved !== true
  ? approval.approved === false ? "Refused" : "Waiting for approval" : "");

export function phaseOf(run) {
  const phase = run.status?.phase || "Pending", approval = approvalOf(run);
  if (approval) return {kind: approval === "Refused" ? "idle" : "warn", word: approval};
  return silentFor(run) ? {kind: "warn", word: `${phase}, nobody at work`} : {kind: MARKS[phase] ?? "idle", word: phase};
}

export const stepState = (record) => STEPS[record?.state ?? "Pending"] ?? ["idle", record.state];

// Whether it should go on, and no client has written for a while.
export function silentFor(run, now = serverNow()) {
  const {phase = "Pending", holder = {}} = run.status ?? {};
  if (!GOING.has(phase) || approvalOf(run)) return "";
  const heard = millis(holder.renewedAt || run.metadata.creationTimestamp);
  return now - heard > SILENT_MS ? age(heard, now) : "";
}

const of = ({metadata}) => `${quoted(metadata.name)} -n ${quoted(metadata.namespace)}`;

// [{text, command}]: what stands still, and how it goes on. Empty: it goes on by itself, or is over.
export function standsStill(run) {
  const {phase, message = ""} = run.status ?? {}, silent = silentFor(run);
  const resume = `fathom runbook resume ${of(run)}`, abort = `fathom runbook abort ${of(run)}`, approve = `fathom runbook approve ${of(run)}`;
  if (approvalOf(run) === "Waiting for approval") {
    return [{text: `Nobody can carry it out before somebody other than ${run.status.author} approves it.`, command: approve}, {text: "Or refuse it:", command: `${approve} --refuse`}];
  }
  if (phase === "Waiting") {
    const step = askedStep(run);
    return [{text: step ? `Step ${step.id} asks: ${filled(step.action.prompt.question, run)}` : message || "It waits for an answer.", command: `${resume}${step ? ` --answer ${step.id}=yes` : ""}`},
      {text: "Undo what was done instead:", command: abort}];
  }
  if (phase === "Stopped" || phase === "Failed") return [{text: message || `It has ${phase.toLowerCase()}: a person must look.`, command: resume}, {text: "Undo what was done instead:", command: abort}];
  if (silent) return [{text: `Nobody has been at work on it for ${silent}${run.status?.holder?.name ? `; the last was ${run.status.holder.name}` : ""}.`, command: resume}];
  return [];
}

const recordOf = (run, id) => (run.status?.steps ?? []).find((each) => each.id === id);

const askedStep = (run) => (run.spec?.content?.steps ?? []).find((step) => step.action?.prompt && !["Done", "Undone", "Kept"].includes(recordOf(run, step.id)?.state) && !recordOf(run, step.id)?.answer);

// ${name} in a template is the value of a parameter.
export function filled(text, run) {
  const defaults = Object.fromEntries((run.spec?.content?.parameters ?? []).map((each) => [each.name, each.default]).filter(([, value]) => value != null));
  const values = {...defaults, ...run.spec?.parameters, run: run.metadata.name, uid: run.metadata.uid, namespace: run.metadata.namespace};
  return String(text ?? "").replace(/\$\{(\w[\w-]*)\}/g, (whole, name) => (Object.hasOwn(values, name) ? values[name] : whole));
}

export function runbookCommand(verb, {metadata, spec}) {
  const sets = (spec.parameters ?? []).filter((each) => each.default === undefined || each.default === null).map((each) => ` --set ${each.name}=…`);
  return `fathom runbook ${verb} ${quoted(metadata.name)}${sets.join("")}${metadata.namespace ? ` -n ${quoted(metadata.namespace)}` : ""}`;
}

// What an action does, in a few words.
export function actionText(action = {}, run) {
  const name = (ref = {}) => `${ref.kind ?? ""} ${filled(ref.metadata?.name ?? ref.name ?? "", run)}`.trim();
  if (action.create) return `create ${name(action.create)}`;
  if (action.apply) return `apply ${name(action.apply)}`;
  if (action.patch) return `patch ${name(action.patch.target)}`;
  if (action.delete) return `delete ${name(action.delete)}`;
  if (action.scale) return `scale ${name(action.scale.target)} to ${filled(action.scale.replicas, run)}`;
  if (action.wait) return `wait${action.wait.about ? ` for ${filled(action.wait.about, run)}` : ""}`;
  if (action.prompt) return `ask: ${filled(action.prompt.question, run)}`;
  return action.restore ? "put back the values of before" : "";
}
