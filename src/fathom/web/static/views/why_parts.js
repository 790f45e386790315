// An Explanation, in the words of `fathom why`: the verdict, what to type, the evidence. Used by three pages.

import {h, replace} from "../dom.js";
import {command, heads, name, state, tag, until} from "../parts.js";
import {plural} from "../text.js";
import {chooseTool, tool, typed} from "../typed.js";

const NODES_SHOWN = 8;

// Redrawn only when its data is another one: focus and selection stay.
export function redraw(node, data, make) {
  const text = JSON.stringify(data ?? null);
  if (node.fathomShown === text) return node;
  node.fathomShown = text;
  return replace(node, make(data));
}

export function verdictState(answer) {
  if (answer.asWanted) return ["ok", "as wanted"];
  if (answer.kind === "passing") return ["busy", "passing"];
  if (answer.kind === "intended") return ["idle", "on purpose"];
  if (answer.ready && answer.wanted) return ["warn", "not as wanted"];
  return ["bad", "not as wanted"];
}

// The first line without its proposal: that has a place of its own.
export function headline(answer) {
  const [kind, word] = verdictState(answer), at = answer.summary.indexOf(". Change: ");
  return [state(kind, word), h("p", {class: "headline-text"}, at < 0 ? answer.summary : `${answer.summary.slice(0, at)}.`)];
}

// What to type: the proposal, who may make it, and others that would do.
export function proposals(answer, extra = []) {
  const {change, changes = []} = answer;
  const none = () => h("p", {class: "empty"}, answer.asWanted ? "Nothing: it is as wanted." : "No single change is known that would help.");
  return [change ? proposal(change, true) : none(), changes.map((each) => proposal(each)),
    extra.length ? h("div", {class: "proposal-more"},
      extra.map(([what, text]) => h("div", {class: "proposal small"}, h("p", {}, what), command(typed(text))))) : null];
}

function proposal(change, first = false) {
  const same = (change.oneOf ?? 1) > 1 ? `one of ${change.oneOf} changes of the same size that would do` : "";
  const takes = change.nodes ? `${plural(change.nodes, "node")} would take it then` : "";
  const notes = [change.who ? `may be made by ${change.who}` : "", takes, same].filter(Boolean).join(" · ");
  return h("div", {class: first ? "proposal first" : "proposal"},
    h("p", {class: "proposal-what"}, first ? null : h("span", {class: "muted"}, "or: "), capital(withoutCommand(change), first)),
    change.command ? command(typed(change.command)) : null, notes ? h("p", {class: "hint"}, notes) : null);
}

// Some sentences end with the command, which is shown below them.
const withoutCommand = ({what, command: text}) => (text ? what.replace(`: ${text}`, "") : what);
const capital = (text, first) => (first && text ? text[0].toUpperCase() + text.slice(1) : text);

// kubectl or fathom, as radio buttons; `changed` draws anew.
export function toolChoice(changed) {
  const one = (value) => h("label", {}, h("input", {type: "radio", name: "tool", value, checked: tool() === value,
    onchange: () => { chooseTool(value); changed(); }}), value);
  return h("fieldset", {class: "tool-choice"}, h("legend", {class: "visually-hidden"}, "Commands of"), one("kubectl"), one("fathom"));
}

const row = (label, ...content) => h("div", {class: "why-row"}, h("dt", {}, label), h("dd", {}, content));

// The evidence, as rows of a list of terms. `skip`: names of parts that the page shows elsewhere.
export function evidence(answer, {skip = []} = {}) {
  const shown = EVIDENCE.filter(([part]) => !skip.includes(part)).flatMap(([, make]) => make(answer)).filter(Boolean);
  return shown.length ? h("dl", {class: "why-rows"}, shown) : h("p", {class: "empty"}, "There is no further evidence.");
}

const EVIDENCE = [
  ["overrides", (answer) => (answer.activeOverrides ?? []).map((each) => row("held by an override", overrideLine(each)))],
  ["fights", (answer) => (answer.fights ?? []).map((line) => row("fight", state("warn", line)))],
  ["groups", groupRows],
  ["causes", causeRows],
  ["details", (answer) => (answer.details ?? []).map((detail) => row(detail.title, lines(detail.lines)))],
  ["queue", queueRow],
  ["decisions", decisionRow],
  ["freshness", freshnessRow],
  ["now", nowRow],
  ["next", (answer) => (answer.nextTrigger ? [row("next", answer.nextTrigger)] : [])],
  ["related", (answer) => (answer.related?.length ? [row("see also", h("span", {class: "names"}, answer.related.map((each) => name(each))))] : [])],
  ["gaps", (answer) => (answer.gaps ?? []).map((gap) => row("no data", h("span", {class: "gap"}, `${gap.source}: ${gap.why}`)))],
];

const lines = (texts) => (texts.length === 1 ? texts[0] : h("ul", {class: "lines"}, texts.map((text) => h("li", {}, text))));

export function overrideLine(each) {
  return h("span", {class: "override-line"}, name({kind: "SchedulerOverride", namespace: each.namespace, name: each.name},
    {withKind: false, withNamespace: false}),
    ` by ${each.author || "somebody unknown"}, `, each.endsAt ? until(each.endsAt, "ends in ") : `ends in ${each.endsIn}`, " ",
      (each.changes ?? []).map((change) => tag(change)));
}

function groupRows(answer) {
  if (!answer.groups?.length) return [];
  return [row("nodes by reason", h("table", {class: "plain tight"},
    h("thead", {}, h("tr", {}, heads(["nodes", "reason", "which"], ["nodes"]))),
    h("tbody", {}, answer.groups.map((group) => h("tr", {}, h("td", {class: "number"}, group.count), h("td", {}, group.reason),
      h("td", {class: "muted"}, some(group.nodes ?? []))))))) ];
}

const some = (names) => (names.length <= NODES_SHOWN ? names.join(", ") || "counts only"
  : `${names.slice(0, NODES_SHOWN).join(", ")} and ${names.length - NODES_SHOWN} more`);

function causeRows(answer) {
  if (!answer.causes?.length) return [];
  return [row("by cause", h("ul", {class: "lines"},
    answer.causes.map((each) => h("li", {}, h("strong", {class: "number"}, `${each.count} × `), tag(each.cause), " ", each.message,
    each.objects?.length ? h("span", {class: "muted"}, ` (${each.objects.join(", ")})`) : null))))];
}

function queueRow({queue, stage}) {
  if (!queue) return [];
  const now = queue.source === "queue", ahead = queue.ahead?.length ? `ahead of it: ${queue.ahead.join(", ")}` : "";
  const place = stage === "queued" && now ? "" : `${queue.place} of ${queue.of}`;
  const text = [place, ahead].filter(Boolean).join("; ");
  return text ? [row(now ? "place in the queue" : "place in the queue at the last attempt", text)] : [];
}

function decisionRow({decisions = [], subject}) {
  const last = decisions[decisions.length - 1];
  if (!last) return [];
  const words = [`attempt ${last.attempt}, after ${Math.round(last.queuedMs)} ms in the queue, woken by ${last.cause}`,
    last.outcome ? `outcome: ${last.outcome}` : "",
    ...(last.victims ?? []).map((victim) => `preempted: ${victim}`), last.considered?.length ? `considered: ${last.considered.join("; ")}`
      : ""].filter(Boolean);
  return [row("recorded", h("a", {href: decisionPage(last.id, subject.namespace)},
    `${last.controller}: ${last.verdict}${last.node ? ` ${last.node}` : ""}`), " ", lines(words))];
}

export const decisionPage = (id, namespace) => `#/decision/${encodeURIComponent(id)}${namespace ? `?namespace=${encodeURIComponent(namespace)}` : ""}`;

// As the command line: Pod, Node and what has changed since; the rest on demand.
const ALWAYS_FRESH = new Set(["Pod", "Node"]);

function freshnessRow({freshness = [], asWanted, stage}) {
  if (!freshness.length) return [];
  return [row("revisions used", revisions(freshness, {waits: !asWanted && WAITING.has(stage)}))];
}

export function revisions(rows, {waits = true} = {}) {
  const isShown = (seen) => ALWAYS_FRESH.has(seen.kind) || seen.applied < seen.latest, others = rows.filter((seen) => !isShown(seen));
  return [revisionTable(rows.filter(isShown), {waits}),
    others.length ? h("details", {class: "more-kinds"}, h("summary", {}, `${plural(others.length, "other kind")}, without a newer change`),
      revisionTable(others, {waits})) : null];
}

const WAITING = new Set(["unschedulable", "queued", "preempting", "control-plane", "gated"]);

// Of each kind: the newest change that the decision had seen, and the latest there is.
// `waits`: a newer change may matter, so the view was behind; else it is only later.
export function revisionTable(rows, {waits = true} = {}) {
  const aged = rows.some((seen) => seen.ageMs !== undefined);
  return h("div", {class: "scroll"}, h("table", {class: "plain tight revisions"},
    h("thead", {}, h("tr", {}, heads(["kind", "used", "latest", "state", ...(aged ? ["age of the view"] : [])], ["used", "latest", "age of the view"]))),
    h("tbody", {}, rows.map((seen) => h("tr", {}, h("th", {scope: "row"}, seen.kind), h("td", {class: "number"}, seen.applied),
      h("td", {class: "number"}, seen.latest ?? "no data"),
      h("td", {}, seen.latest === undefined ? state("idle", "not known") : seen.applied < seen.latest
        ? (waits ? state("warn", "behind") : state("idle", "changed since")) : state("ok", "newest")),
      aged ? h("td", {class: "number"}, seen.ageMs === undefined ? "" : `${seen.ageMs} ms`) : null)))));
}

function nowRow({now, decisions, asWanted}) {
  if (!now || !(decisions?.length || asWanted)) return [];
  const text = now.differs ? `another result: ${now.answer}` : asWanted ? `the same result: ${now.answer}` : "the same result";
  return [row("decided again now", now.differs ? state("warn", text) : text)];
}
