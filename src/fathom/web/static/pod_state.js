// What a table shows of a pod: a mark, kubectl's word, and a sentence from its conditions. Pure.

export const BAD = /BackOff|Err|Invalid|Failed|Crash|OOM|Evicted|Lost|Unknown/;

// {kind, word, sentence}: kind is that of parts.state().
export function podState(pod) {
  let known = states.get(pod);
  if (!known) states.set(pod, known = read(pod));
  return known;
}

const states = new WeakMap();  // An object that changes is another object.

function read(pod) {
  const {status = {}, metadata, spec = {}} = pod;
  if (metadata.deletionTimestamp) return {kind: "busy", word: "Terminating", sentence: gracePeriod(pod)};
  if (status.phase === "Succeeded") return {kind: "idle", word: "Completed", sentence: ""};
  if (status.phase === "Failed") return {kind: "bad", word: status.reason || "Failed", sentence: status.message || ended(status.containerStatuses)};
  if (!spec.nodeName) return unplaced(pod);
  return started(pod);
}

function unplaced(pod) {
  const gates = (pod.spec?.schedulingGates ?? []).map((gate) => gate.name);
  if (gates.length) return {kind: "idle", word: "Gated", sentence: `it waits for its scheduling gates: ${gates.join(", ")}`};
  const scheduled = condition(pod, "PodScheduled");
  if (scheduled?.status === "False") return {kind: "bad", word: "Unschedulable", sentence: scheduled.message ?? ""};
  return {kind: "busy", word: "Queued", sentence: "it waits for a node"};
}

function started(pod) {
  const {status = {}} = pod;
  const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const waiting = all.find((each) => each.state?.waiting && BAD.test(each.state.waiting.reason ?? ""))
    ?? all.find((each) => each.state?.waiting && each.state.waiting.reason !== "PodInitializing");
  if (waiting) {
    const {reason = "Waiting", message = ""} = waiting.state.waiting;
    return {kind: BAD.test(reason) ? "bad" : "busy", word: reason, sentence: message ? `${waiting.name}: ${message}` : lastEnd(waiting)};
  }
  const dead = (status.containerStatuses ?? []).find((each) => each.state?.terminated && each.state.terminated.exitCode !== 0);
  if (dead) return {kind: "bad", word: dead.state.terminated.reason || "Error", sentence: ended([dead])};
  if (status.phase !== "Running") return {kind: "busy", word: "Starting", sentence: condition(pod, "Initialized")?.message ?? ""};
  return running(pod);
}

function running(pod) {
  const ready = condition(pod, "Ready"), serving = condition(pod, "fathom.dev/Serving");
  if (ready?.status !== "True") return {kind: "warn", word: "Not ready", sentence: condition(pod, "ContainersReady")?.message || ready?.message || ""};
  if (serving?.status === "False") return {kind: "warn", word: "Not serving", sentence: serving.message ?? ""};
  return {kind: "ok", word: serving?.status === "True" ? "Serving" : "Ready", sentence: ""};
}

export const condition = (object, type) => (object.status?.conditions ?? []).find((each) => each.type === type);

export const restarts = (pod) => (pod.status?.containerStatuses ?? []).reduce((sum, each) => sum + (each.restartCount ?? 0), 0);

// The newest end of a container, for "12 (3m ago)".
export function lastRestart(pod) {
  const ends = (pod.status?.containerStatuses ?? []).map((each) => each.lastState?.terminated?.finishedAt).filter(Boolean).sort();
  return ends[ends.length - 1] ?? "";
}

function ended(statuses) {
  const found = (statuses ?? []).find((each) => each.state?.terminated);
  if (!found) return "";
  const {exitCode, reason, message} = found.state.terminated;
  return [`${found.name} ended with exit code ${exitCode}`, reason && reason !== "Error" ? ` (${reason})` : "", message ? `: ${message}` : ""].join("");
}

function lastEnd(status) {
  const last = status.lastState?.terminated;
  return last ? `${status.name} ended with exit code ${last.exitCode}${last.reason && last.reason !== "Error" ? ` (${last.reason})` : ""}` : "";
}

function gracePeriod(pod) {
  const held = pod.metadata.finalizers ?? [];
  return held.length ? `its deletion waits for ${held.join(", ")}` : "it is being deleted";
}
