// A simulated run's file (fathom.dev/sim-run/1) as a story: read in the browser, text only, sent nowhere. Pure.

import {quoted} from "./typed.js";

export const FORMAT = "fathom.dev/sim-run/1";
export const FILE_BYTES_MAX = 64 * 2 ** 20;
const CAUSES_MAX = 6;

export class NoStory extends Error {}

const list = (value) => (Array.isArray(value) ? value : []);
const text = (value) => (value === null || value === undefined ? "" : String(value));

export function parseStory(content, file) {
  let run;
  try { run = JSON.parse(content); } catch { throw new NoStory(`${file} is no JSON: choose a file that \`fathom sim run\` or \`fathom sim explore\` kept`); }
  if (run?.format !== FORMAT) throw new NoStory(`${file} is not a recorded run: its format is ${JSON.stringify(run?.format ?? "").slice(0, 60)}, and this page reads ${FORMAT}`);
  return storyOf(run, file);
}

function storyOf(run, file) {
  const plan = run.plan ?? {}, violation = run.violation ?? null;
  const lines = list(run.timeline).map((each, at) => ({number: at + 1, at: clock(each.at_s), who: text(each.who), what: text(each.what), because: list(each.because), probably: list(each.probably),
    fault: Boolean(each.fault), culprit: text(each.culprit), count: Number(each.count) || 1, details: list(each.details).map(text), seconds: Number(each.at_s) || 0}));
  return {
    file, scenario: text(plan.scenario), seed: text(plan.seed), strategy: text(plan.strategy || "random"), scale: plan.scale ?? 1, inputs: Number(run.inputs) || 0, trace: text(run.trace),
    versions: run.versions ?? {}, violation: violation && {invariant: text(violation.invariant), message: text(violation.message), at: clock(violation.at_s), objects: list(violation.objects).map(text)},
    lines, causes: lines.filter((each) => each.culprit && (!violation || each.seconds <= violation.at_s)).slice(-CAUSES_MAX),
    faults: list(plan.faults).map((each) => ({at: clock(each.at_s), kind: text(each.fault), text: faultText(each)})), fired: Object.entries(run.fired ?? {}).map(([site, times]) => [site, Number(times)]),
    checkers: list(run.configuration?.checkers).map(text), processes: Object.keys(run.configuration?.processes ?? {}), commands: commandsOf(plan, file, run.patch), patch: run.patch ? text(run.patch.file) : "",
  };
}

// "01:02.003", since the scenario began.
export function clock(seconds) {
  const total = Math.max(0, Number(seconds) || 0), minutes = Math.floor(total / 60);
  return `${String(minutes).padStart(2, "0")}:${(total - minutes * 60).toFixed(3).padStart(6, "0")}`;
}

const AT_WRITE = /-at-write$/;

// "on manager-1, POST /pods, for 5 s": whatever the fault says of itself.
function faultText(fault) {
  const {target = "*", match = "", for_s: lasts, times = 1, at_s, fault: kind, ...rest} = fault;
  return [`on ${target === "*" ? "any process" : text(target)}`, match ? `requests with ${text(match)}` : "", lasts ? `for ${lasts} s` : "", AT_WRITE.test(kind) ? `at its write number ${times}` : times > 1 ? `${times} times` : "",
    ...Object.entries(rest).map(([name, value]) => `${name.replace(/_s$/, "")} ${text(typeof value === "object" ? JSON.stringify(value) : value)}${name.endsWith("_s") ? " s" : ""}`)].filter(Boolean).join(", ");
}

function commandsOf(plan, file, patch) {
  const trust = text(plan.scenario).includes(".py:") ? " --trust scenario" : "", patched = patch ? " --trust patch" : "";
  return {replay: `fathom replay ${quoted(file)}${trust}${patched}`, shrink: `fathom sim shrink ${quoted(file)}${trust}${patched}`, rerun: patch ? "" : `fathom sim run ${quoted(text(plan.scenario))} --seed ${quoted(text(plan.seed))}${plan.strategy && plan.strategy !== "random" ? ` --strategy ${quoted(text(plan.strategy))}` : ""}`};
}
