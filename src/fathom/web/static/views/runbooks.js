// Runbooks and their runs. Address: #/runbooks, #/runbooks/NAMESPACE/RUN. The page follows runs; a client carries them
// out with its caller's credentials (`fathom runbook run`), so this page shows the command and does no step itself.

import {get} from "../api.js";
import {h, keyed, replace, setText} from "../dom.js";
import {authorText} from "../overrides.js";
import {card, command, empty, listTrouble, problem, setState, since, state, tag} from "../parts.js";
import {phaseOf, runbookCommand} from "../runbook_words.js";
import {everySecond, live, subscribeAll} from "../store.js";
import {millis, plural} from "../text.js";
import {mountRun} from "./runbook_run.js";

export function mount(root, params, context) {
  return params.length ? mountRun(root, {namespace: params[0], name: params[1]}, context) : mountList(root, context);
}

function mountList(root, context) {
  context.title("Runbooks");
  const {scope} = context, runs = live(scope.path("fathom.dev/v1alpha1", "runbookruns")), books = live(scope.path("fathom.dev/v1alpha1", "runbooks"));
  const running = card("Runs"), procedures = card("Runbooks", {intro: "Procedures as data: what must hold, the steps, how each is undone. They are carried out in a terminal, with your own credentials."});
  const body = h("tbody"), table = runTable(body), shelf = h("ul", {class: "rows"});
  let library = null, failed = null;
  replace(root, h("div", {class: "page-head"}, h("h1", {}, "Runbooks")), h("div", {class: "stack"}, running.section, procedures.section));

  function renderRuns() {
    const trouble = listTrouble(runs);
    if (trouble) return replace(running.body, trouble);
    const all = [...runs.values()].sort((one, other) => millis(other.metadata.creationTimestamp) - millis(one.metadata.creationTimestamp));
    setText(running.count, all.length ? String(all.length) : "");
    if (!all.length) return replace(running.body, empty("None: nobody has run a runbook here."));
    if (running.body.firstChild !== table) replace(running.body, table);
    return keyed(body, all, {key: (each) => each.metadata.uid, make: makeRun, update: updateRun});
  }

  function renderBooks() {
    if (!library) return replace(procedures.body, failed ? problem(failed) : h("p", {class: "loading"}, "Reading …"));
    const stored = [...books.values()].map((each) => ({...each, source: "cluster"}));
    const all = [...stored, ...library.map((each) => ({...each, source: "library"}))];
    setText(procedures.count, String(all.length));
    if (procedures.body.firstChild !== shelf) replace(procedures.body, shelf);
    return keyed(shelf, all, {key: (each) => `${each.source}/${each.metadata.namespace ?? ""}/${each.metadata.name}/${each.spec.version ?? 1}/${each.metadata.generation ?? 0}`, make: makeBook});
  }

  get("/ui/runbooks").then((answer) => { library = answer.items; renderBooks(); }, (error) => { failed = error; renderBooks(); });
  const stops = [subscribeAll([runs], renderRuns), subscribeAll([books], renderBooks), everySecond(() => { if (runs.size) renderRuns(); })];
  return () => stops.forEach((stop) => stop());
}

function runTable(body) {
  return h("div", {class: "scroll"}, h("table", {class: "plain"}, h("caption", {class: "visually-hidden"}, "Runs of runbooks, the newest first"),
    h("thead", {}, h("tr", {}, ["Phase", "Run", "Runbook", "Steps", "Started by", "Carried out by"].map((each) => h("th", {scope: "col"}, each)))), body));
}

function makeRun(run) {
  const {namespace, name} = run.metadata, part = encodeURIComponent;
  const parts = {phase: state("busy", ""), steps: h("td"), holder: h("td"), message: h("span", {class: "hint override-reason"})};
  const row = h("tr", {"data-row": "run"}, h("td", {}, parts.phase),
    h("th", {scope: "row"}, h("a", {class: "name", href: `#/runbooks/${part(namespace)}/${part(name)}`}, h("span", {class: "name-namespace"}, `${namespace}/`), h("span", {class: "name-own"}, name)), parts.message),
    h("td", {}, run.spec?.runbook?.name ?? ""), parts.steps, h("td", {}, authorText(run), ", ", since(run.metadata.creationTimestamp, "", " ago")), parts.holder);
  row.parts = parts;
  return row;
}

function updateRun(row, run) {
  const {status = {}, spec = {}} = run, total = spec.content?.steps?.length ?? 0, done = (status.steps ?? []).filter((each) => each.state === "Done").length;
  const {kind, word} = phaseOf(run);
  setState(row.parts.phase, kind, word);
  setText(row.parts.message, status.message ?? "");
  setText(row.parts.steps, `${done} of ${total} done`);
  setText(row.parts.holder, status.holder?.name ?? "nobody");
}

function makeBook(book) {
  const {spec, metadata, source} = book;
  return h("li", {class: "book", "data-row": "runbook"}, h("details", {},
    h("summary", {}, h("span", {class: "name-own"}, metadata.name), " ", tag(source === "library" ? "comes with fathom" : `namespace ${metadata.namespace}`), " ", h("span", {class: "hint"}, `version ${spec.version ?? 1}`), h("span", {class: "book-title"}, spec.title ?? "")),
    h("div", {class: "book-body"}, spec.description ? h("p", {}, spec.description) : null,
      parameters(spec), conditions("Before the first step", spec.preconditions), steps(spec), conditions("In the end", spec.postconditions),
      h("p", {class: "hint"}, "Judged now, with its overrides tried in forks; writes nothing:"), command(runbookCommand("plan", book)),
      h("p", {class: "hint"}, "Carried out:"), command(runbookCommand("run", book)))));
}

function parameters({parameters: all = []}) {
  if (!all.length) return null;
  return h("div", {}, h("h3", {}, plural(all.length, "parameter")), h("dl", {class: "facts"}, all.flatMap((each) => [h("dt", {}, each.name),
    h("dd", {}, each.description, each.default === undefined || each.default === null ? h("strong", {}, " (needed)") : ` (default ${each.default})`)])));
}

export function conditions(title, all = []) {
  if (!all?.length) return null;
  return h("div", {}, h("h3", {}, title), h("ul", {class: "plain-list"}, all.map((each) => h("li", {}, h("strong", {}, each.name), " ", h("code", {class: "hint"}, each.expression)))));
}

function steps({steps: all = []}) {
  return h("div", {}, h("h3", {}, plural(all.length, "step")), h("ol", {class: "numbered"}, all.map((step) => h("li", {}, h("strong", {}, step.title || step.id),
    h("span", {class: "hint"}, ` ${Object.keys(step.action ?? {})[0] ?? ""}${step.compensation ? ", can be undone" : step.reversible === false ? ", cannot be undone" : ""}`)))));
}
