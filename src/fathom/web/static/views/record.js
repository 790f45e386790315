// Record and simulator: what is recorded, incidents exported and replayed on the server, and the story of a simulated
// run, which is read in the browser and sent nowhere.

import {fetchWithKey, get, refusal, send} from "../api.js";
import {announce, h, replace, setText} from "../dom.js";
import {download} from "../download.js";
import {card, command, empty, heads, problem, since, state} from "../parts.js";
import {guarded} from "../rights.js";
import {age, memory, millis, plural, when} from "../text.js";
import {storyCard} from "./record_story.js";
import {replayResult} from "./record_replay.js";

const EVERY_MS = 5_000, BUSY_MS = 1_000;

export function mount(root, params, context) {
  context.title("Record");
  const tapes = card("Tapes", {intro: "Every input of the deciding processes is on disk before it is delivered, so the same code can be run again."});
  const exports = card("Incidents", {intro: "Everything about one object in one file: tapes, decisions, audit entries, the store. The file replays anywhere."});
  const story = storyCard();
  const form = exportForm(context, read), list = h("ul", {class: "rows exports"});
  replace(exports.body, form.node, list);
  replace(tapes.body, h("p", {class: "loading"}, "Reading …"));
  replace(root, h("div", {class: "page-head"}, h("h1", {}, "Record and simulator")), h("div", {class: "record-columns"}, h("div", {class: "stack"}, tapes.section, exports.section), story.section));
  let timer = 0, over = false, shown = "";

  async function read() {
    clearTimeout(timer);
    let wait = EVERY_MS;
    try {
      const found = document.hidden ? null : await get("/ui/record");
      if (over) return;
      if (found) show(found);
      if (found?.busy) wait = BUSY_MS;
    } catch (error) {
      if (over) return;
      exports.section.hidden = error.status === 403;
      shown = "";
      replace(tapes.body, problem(error), h("p", {class: "hint"}, "Where the data directory is:"), command("fathom record status"));
    }
    if (!over) timer = setTimeout(read, wait);
  }

  function show(found) {
    exports.section.hidden = false;
    setText(exports.count, found.busy ? `the server is ${found.busy} …` : "");
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    setText(tapes.count, found.tapes.length ? `${found.tapes.filter((each) => each.recording).length} of ${found.tapes.length} recording` : "");
    replace(tapes.body, found.tapes.length ? tapeTable(found.tapes) : empty("There are no tapes in the API server's data directory: its processes record where they run, or were started without --record."), notes(found));
    replace(list, found.exports.length ? [...found.exports].reverse().map((each) => exportRow(each, context, read)) : null);
  }

  read();
  return () => { over = true; clearTimeout(timer); form.stop(); };
}

function tapeTable(tapes) {
  const rows = tapes.flatMap((tape) => [...tape.runs].reverse().map((run, at) => {
    const recording = tape.recording && at === 0;
    return h("tr", {"data-row": "tape"}, h("th", {scope: "row"}, tape.process), h("td", {}, String(run.run)), h("td", {}, state(recording ? "busy" : "idle", recording ? "recording" : "ended")),
      h("td", {}, since(run.since, "", " ago")), h("td", {}, age(run.since, millis(run.until))), h("td", {class: "number"}, memory(run.stored_bytes)), h("td", {}, h("code", {}, run.entry)));
  }));
  return h("div", {class: "scroll"}, h("table", {class: "plain"}, h("caption", {class: "visually-hidden"}, "Runs of recorded processes"),
    h("thead", {}, h("tr", {}, heads(["Process", "Run", "State", "Began", "Lasted", "Size", "Entry"], ["Size"]))), h("tbody", {}, rows)));
}

function notes({gaps, kept, usedUp}) {
  const lines = [
    ...gaps.map((each) => state("warn", `${each.process} was not recorded from ${when(each.since)} ${each.until ? `to ${when(each.until)}` : "on: it is not recorded now"}${each.lost ? `, ${plural(each.lost, "record")} lost` : ""}`)),
    ...kept.map((each) => state("ok", `Kept with full detail, around ${each.around}: ${when(each.since)} to ${when(each.until)}`)),
    ...Object.entries(usedUp).map(([process, time]) => state("warn", `${process} had no room left for kept records at ${when(time)}: older ones have lost detail`))];
  return h("ul", {class: "plain-list notes"}, lines.length ? lines.map((each) => h("li", {}, each)) : h("li", {}, state("ok", "No gaps: everything since the tapes began is there.")));
}

function exportForm({session, scope}, read) {
  const field = (id, label, value, placeholder) => ({input: h("input", {id, type: "text", value, placeholder, required: true, autocomplete: "off", spellcheck: "false"}), label, id});
  const around = field("export-around", "Around", "", "deployment/web"), namespace = field("export-namespace", "Namespace", scope.namespace || "default", "default"), window_ = field("export-window", "The last", "15m", "15m");
  const trouble = h("div");
  const button = guarded(session, "Export", [{verb: "post", path: "/ui/record/exports"}], () => {}, "primary");
  button.button.type = "submit";
  const node = h("form", {class: "export-form", "aria-label": "Export an incident", onsubmit: async (event) => {
    event.preventDefault();
    button.refuse("exporting …");
    replace(trouble);
    try {
      const made = await send("POST", "/ui/record/exports", {around: around.input.value.trim(), namespace: namespace.input.value.trim(), window: window_.input.value.trim()});
      announce(`Exported ${made.around}`);
    } catch (error) { replace(trouble, problem(error)); }
    button.refuse("");
    read();
  }}, [around, namespace, window_].map((each) => h("p", {class: "field"}, h("label", {for: each.id}, each.label), each.input)), button.node, trouble);
  return {node, stop: () => {}};
}

function exportRow(each, {session}, read) {
  const trouble = h("div"), running = each.replay?.state === "running";
  const save = h("button", {type: "button", onclick: async () => {
    replace(trouble);
    const response = await fetchWithKey(`/ui/record/exports/${each.id}`);
    if (response.ok) download(each.file, await response.blob());
    else replace(trouble, problem(await refusal(response)));
  }}, "Save the file");
  const replay = guarded(session, each.replay ? "Replay it again" : "Replay it here", [{verb: "post", path: `/ui/record/exports/${each.id}/replay`}], async () => {
    replace(trouble);
    try { await send("POST", `/ui/record/exports/${each.id}/replay`, {}); } catch (error) { replace(trouble, problem(error)); }
    read();
  });
  if (running) replay.refuse("the replay runs");
  return h("li", {"data-row": "export"}, h("p", {}, h("strong", {}, each.around), ` in ${each.namespace}, the last ${each.window} before ${when(each.time)}, ${memory(each.bytes)}`), h("pre", {class: "hint export-says"}, each.says),
    h("div", {class: "actions"}, save, replay.node), each.replay ? replayResult(each.replay) : h("p", {class: "hint"}, "Or anywhere: ", command(`fathom replay ${each.file}`)), trouble);
}
