// What came of a replay: every request and decision was the same, or the first that differs.

import {h} from "../dom.js";
import {state} from "../parts.js";
import {duration, plural} from "../text.js";

export function replayResult(replay) {
  if (replay.state === "running") return h("p", {role: "status"}, state("busy", "The replay runs, at low priority …"));
  if (replay.state === "failed") return h("div", {class: "replay"}, state("bad", "The replay could not run"), h("pre", {class: "hint"}, replay.message));
  const result = replay.result, tapes = (result.tapes ?? [{result}]).map((each) => ({...each.result, process: each.process, run: each.run})), matched = tapes.every((each) => each.matched);
  return h("div", {class: "replay"}, state(matched ? "ok" : "bad", matched ? "Reproduced" : "Not reproduced"), h("ul", {class: "plain-list"}, tapes.map(tapeRow)), noteList(result.notes));
}

function tapeRow(tape) {
  const counts = [plural(tape.inputs ?? 0, "input"), plural(tape.asks ?? 0, "request"), ...(tape.decisions === undefined ? [] : [plural(tape.decisions, "decision")]), `${duration(tape.seconds ?? 0)} of the process's time`];
  const name = tape.process ? `${tape.process} run ${tape.run}` : tape.birth?.entry ?? "";
  return h("li", {}, h("p", {}, state(tape.matched ? "ok" : "bad", tape.matched ? "the same" : "differs"), " ", h("strong", {}, name), ` ${counts.join(", ")}`), tape.first_divergence ? difference(tape.first_divergence) : null, noteList(tape.notes));
}

const noteList = (notes) => (notes?.length ? h("ul", {class: "plain-list hint"}, notes.map((each) => h("li", {}, `note: ${each}`))) : null);

function difference(first) {
  const request = (one) => (one ? `${one.method} ${one.target}, ${one.body_bytes} bytes` : "nothing");
  return h("dl", {class: "facts difference"}, [["first difference", first.why], ["live", request(first.live)], ["replay", request(first.replayed)], ...(first.after ? [["after input", `${first.after.index}, ${first.after.kind} (${first.after.what}), at ${first.after.time}`]] : [])]
    .flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, String(text ?? ""))]));
}
