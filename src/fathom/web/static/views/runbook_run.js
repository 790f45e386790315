// One run, followed live step by step: what was judged with its evidence, what was written with its audit id, what
// stands still and the command that carries it on.

import {collection, get} from "../api.js";
import {announce, h, keyed, replace, setText} from "../dom.js";
import {download} from "../download.js";
import {authorText} from "../overrides.js";
import {card, command, empty, listTrouble, problem, setState, since, state} from "../parts.js";
import {actionText, filled, phaseOf, standsStill, stepState} from "../runbook_words.js";
import {everySecond, live, subscribeAll} from "../store.js";
import {fullTime, plural, when} from "../text.js";

export function mountRun(root, wanted, context) {
  context.title(`Run ${wanted.name}`);
  const selector = `?fieldSelector=${encodeURIComponent(`metadata.name=${wanted.name}`)}`;
  const list = live(`${collection("fathom.dev/v1alpha1", "runbookruns", wanted.namespace)}${selector}`);
  const mark = state("busy", "reading"), lead = h("p", {class: "lead"}), body = h("div", {class: "stack"});
  replace(root, h("p", {class: "crumb"}, h("a", {href: "#/runbooks"}, "Runbooks")), h("div", {class: "page-head"}, h("h1", {}, wanted.name), mark, lead), body);
  let shown = null, phase = "";

  function render() {
    const trouble = listTrouble(list);
    if (trouble) return replace(body, trouble);
    const run = list.get(`${wanted.namespace}/${wanted.name}`);
    if (!run) return replace(body, empty(`There is no run ${wanted.namespace}/${wanted.name}.`));
    const now = phaseOf(run);
    setState(mark, now.kind, now.word);
    setText(lead, filled(run.spec?.content?.title ?? run.spec?.runbook?.name, run));
    if (phase && phase !== now.word) announce(`The run is ${now.word}`);
    phase = now.word;
    if (!shown) { shown = parts(run); replace(body, shown.nodes); }
    return shown.update(run);
  }

  const stops = [subscribeAll([list], render), everySecond(() => { if (shown) render(); })];
  return () => stops.forEach((stop) => stop());
}

function parts(first) {
  const still = card("What stands still", {className: "stands-still"}), steps = card("Steps"), facts = card("The run"), history = card("History"), report = reportCard(first);
  const before = card("Before the first write"), after = card("In the end"), rows = h("ol", {class: "run-steps"});
  replace(steps.body, rows);
  const update = (run) => {
    const waits = standsStill(run);
    still.section.hidden = !waits.length;
    once(still.body, JSON.stringify(waits), () => waits.map((each) => h("div", {class: "still"}, h("p", {}, each.text), command(each.command))));
    const records = new Map((run.status?.steps ?? []).map((each) => [each.id, each]));
    const all = (run.spec?.content?.steps ?? []).map((step, at) => ({step, at, run, record: records.get(step.id)}));
    setText(steps.count, `${all.filter((each) => each.record?.state === "Done").length} of ${all.length} done`);
    keyed(rows, all, {key: (each) => each.step.id, make: makeStep, update: updateStep});
    once(facts.body, JSON.stringify([run.spec.parameters, run.status]), () => factList(run));
    verdictCard(before, run.status?.preconditions);
    verdictCard(after, run.status?.postconditions);
    once(history.body, JSON.stringify(run.status?.history), () => historyRows(run.status?.history ?? []));
    history.section.hidden = !run.status?.history?.length;
  };
  return {nodes: [still.section, h("div", {class: "run-columns"}, steps.section, h("div", {class: "stack"}, facts.section, before.section, after.section, history.section, report))], update};
}

function once(node, key, make) {
  if (node.key === key) return;
  node.key = key;
  replace(node, make());
}

function makeStep({step, at, run}) {
  const parts = {mark: state("idle", ""), more: h("div", {class: "step-more"})};
  const node = h("li", {class: "run-step", "data-row": "step"}, h("span", {class: "step-number", "aria-hidden": "true"}, String(at + 1)),
    h("div", {class: "step-body"}, h("p", {class: "step-title"}, h("strong", {}, filled(step.title || step.id, run)), " ", h("code", {class: "hint"}, step.id)),
      h("p", {class: "step-state"}, parts.mark, h("span", {class: "hint"}, ` ${actionText(step.action, run)}`)), parts.more));
  node.parts = parts;
  return node;
}

function updateStep(node, {step, record, run}) {
  const [kind, word] = stepState(record);
  setState(node.parts.mark, kind, word);
  node.dataset.kind = kind;
  once(node.parts.more, JSON.stringify(record ?? {}), () => [
    record?.message ? h("p", {}, record.message) : null,
    record?.answer ? h("p", {}, `answered ${record.answer}`) : null,
    record?.startedAt ? h("p", {class: "hint"}, `${when(record.startedAt)}${record.endedAt ? ` to ${when(record.endedAt)}` : ""}${record.by ? `, by ${record.by}` : ""}${record.attempts > 1 ? `, ${record.attempts} attempts` : ""}`) : null,
    record?.writes?.length ? writes(record.writes) : null,
    record?.verdicts?.length ? verdicts(record.verdicts) : null,
    step.compensation ? h("p", {class: "hint"}, `Undone by: ${actionText(step.compensation, run)}`) : step.reversible === false ? h("p", {class: "hint"}, "It cannot be undone.") : null,
  ]);
}

const reference = (ref) => (ref ? `${ref.kind} ${ref.namespace ? `${ref.namespace}/` : ""}${ref.name}` : "");

function writes(all) {
  return h("div", {class: "scroll"}, h("table", {class: "plain small"}, h("thead", {}, h("tr", {}, ["Write", "Object", "Revision", "Audit id"].map((each) => h("th", {scope: "col"}, each)))),
    h("tbody", {}, all.map((each) => h("tr", {}, h("td", {}, `${each.undo ? "undo: " : ""}${each.verb}`, each.code && each.code !== 200 ? `, answer ${each.code}` : each.code ? "" : ", the answer was lost"),
      h("td", {}, reference(each.object), each.message ? h("p", {class: "hint"}, each.message) : null), h("td", {}, each.revision ? String(each.revision) : ""), h("td", {}, h("code", {}, each.auditId || "none")))))));
}

const VERDICTS = {True: ["ok", "holds"], False: ["bad", "does not hold"], Unknown: ["warn", "unknown"]};

function verdicts(all) {
  return h("ul", {class: "verdicts"}, all.map((each) => h("li", {}, state(...(VERDICTS[each.value] ?? VERDICTS.Unknown)), " ", h("strong", {}, each.name),
    each.shown ? [" ", h("code", {}, each.shown)] : null, each.message ? h("span", {class: "hint"}, ` ${each.message}`) : null)));
}

function verdictCard({section, body}, all = []) {
  section.hidden = !all?.length;
  once(body, JSON.stringify(all), () => verdicts(all ?? []));
}

function factList(run) {
  const {spec, status = {}, metadata} = run;
  const rows = [["runbook", `${spec.runbook.name} version ${spec.runbook.version ?? 1} (${spec.runbook.source || "cluster"})`], ["hash", h("code", {}, spec.runbook.hash.slice(0, 16))],
    ["started by", h("span", {}, authorText(run), ", ", since(metadata.creationTimestamp, "", " ago"))],
    ["carried out by", status.holder?.name ? h("span", {}, status.holder.name, status.holder.renewedAt ? [", heard of ", since(status.holder.renewedAt, "", " ago")] : null) : "nobody yet"],
    ["why", spec.reason || spec.parameters?.reason || "none given"], ...(status.endedAt ? [["ended", fullTime(status.endedAt)]] : []), ...(status.message ? [["message", status.message]] : []),
    ...Object.entries(spec.parameters ?? {}).map(([name, value]) => [name, value])];
  return h("dl", {class: "facts"}, rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

const historyRows = (lines) => h("ol", {class: "history", tabindex: 0, "aria-label": "History of the run, the newest first"}, [...lines].reverse().map((each) => h("li", {}, h("span", {class: "hint"}, `${when(each.time)} ${each.by ?? ""}`), " ", each.text)));

// The report as text, with every write checked against the audit log.
function reportCard(run) {
  const {section, body} = card("Report"), {namespace, name} = run.metadata, out = h("div");
  const path = `/ui/runbook-reports/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const button = h("button", {type: "button", onclick: async () => {
    button.disabled = true;
    try {
      const text = await get(path, {raw: true});
      replace(out, h("p", {class: "actions"}, h("button", {type: "button", onclick: () => download(`${name}.md`, text, "text/markdown")}, "Save it"), h("span", {class: "hint"}, plural(text.split("\n").length, "line"))),
        h("pre", {class: "report", tabindex: 0, "aria-label": "The report, as Markdown"}, text));
    } catch (error) { replace(out, problem(error)); }
    button.disabled = false;
  }}, "Write the report");
  replace(body, h("p", {class: "hint"}, "For a post-mortem: what was done when, by whom, with the audit log's word on every write."), button, out, h("p", {class: "hint"}, "The same in a terminal:"), command(`fathom runbook report ${name} -n ${namespace}`));
  return section;
}
