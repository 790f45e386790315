// Decision: what was decided about an object, from what, for which reason; asked again now; and what if.

import {ApiError, OWN, ask, collection, get} from "../api.js";
import {asking} from "../asking.js";
import {h, replace} from "../dom.js";
import {card, name, problem, state} from "../parts.js";
import {live} from "../store.js";
import {fullTime, kindOf} from "../text.js";
import {facts, suggestions} from "./decision_facts.js";
import {nodesCard} from "./decision_nodes.js";
import {outcome, whatIf} from "./decision_what_if.js";
import {redraw, revisionTable} from "./why_parts.js";

export function mount(root, params, context) {
  const [id] = params;
  context.title("Decision");
  const body = h("div", {class: "stack"}, h("p", {class: "loading"}, "Reading …"));
  const head = h("div", {class: "page-head"}, h("p", {class: "over-title"}, `Decision ${id}`), h("h1", {}, "Decision"));
  replace(root, head, body);
  let page = null, over = false;
  find(id, params.query?.get("namespace") ?? "").then((decision) => {
    if (over) return;
    page = new DecisionPage(decision, context);
    replace(head, page.head);
    replace(body, page.body);
  }, (error) => { if (!over) replace(body, problem(error)); });
  return () => { over = true; page?.stop(); };
}

// A decision is in the namespace of its subject. An address without one: it is looked for.
async function find(id, namespace) {
  const path = (where) => `${OWN}/namespaces/${encodeURIComponent(where)}/decisions/${encodeURIComponent(id)}`;
  if (namespace) return get(path(namespace));
  const listed = await get(`${OWN}/decisions?fieldSelector=${encodeURIComponent(`metadata.name=${id}`)}`);
  const found = listed.items?.[0];
  if (!found) throw new ApiError(404, "NotFound", `no journal that answers has decision ${id}, or you may not see it`);
  return get(path(found.metadata.namespace));
}

class DecisionPage {
  #now = null;
  #error = null;
  #assumed = null;

  constructor(decision, context) {
    const {spec, metadata} = decision, {subject} = spec;
    Object.assign(this, {decision, namespace: metadata.namespace, isPlacing: spec.controller.startsWith("scheduler") && subject.resource === "pods",
      asked: {kind: kindOf(subject.resource), resource: subject.resource, namespace: subject.namespace, name: subject.name}});
    context.title(`${spec.verdict} ${subject.name} · Decision`);
    this.head = header(decision);
    this.compared = h("div", {class: "compared"});
    this.revisions = card("Revisions used, against the latest", {className: "revisions-card"});
    this.facts = card("What it followed from", {className: "decision-facts"});
    this.nodes = this.isPlacing ? nodesCard() : null;
    this.whatIf = this.isPlacing ? whatIf({subject: {kind: "Pod", name: subject.name, namespace: subject.namespace}, namespace: this.namespace,
      answered: (answer) => { this.#assumed = answer; this.#show(); }, suggestions, unbound: () => this.#unbound()}) : null;
    replace(this.facts.body, facts(decision));
    this.body = h("div", {class: "stack"}, this.compared,
      h("div", {class: "two-columns"}, h("div", {class: "stack"}, this.nodes?.section, this.revisions.section),
        h("div", {class: "stack"}, this.whatIf?.section, this.facts.section)));
    const {kind, resource, ...where} = this.asked;
    this.asking = asking({gapMs: 3_000, lists: this.#lists(), question: (signal) => this.#question({resource, ...where}, signal),
      show: (answer) => { this.#now = answer; this.#error = null; this.#show(); },
        failed: (error) => { this.#now = null; this.#error = error; this.#show(); }});
    this.#show();
  }

  #lists() {
    if (!this.isPlacing) return [];
    this.pods = live(`${collection("v1", "pods", this.asked.namespace)}?fieldSelector=${encodeURIComponent(`metadata.name=${this.asked.name}`)}`);
    return [this.pods, live("/api/v1/nodes")];
  }

  // A pod that has a node is explained as it is there: the decider is asked as if it had none yet.
  async #question(subject, signal) {
    const answer = await ask("explanations", {subject}, this.namespace, {signal});
    const whatIf = answer.now ? [] : this.#unbound();
    return whatIf.length ? {...await ask("explanations", {subject, whatIf}, this.namespace, {signal}), summary: answer.summary} : answer;
  }

  #unbound() {
    const {namespace, name: podName} = this.asked, bound = this.isPlacing && this.pods?.get(`${namespace}/${podName}`)?.spec?.nodeName;
    return bound ? [`pod/${podName}={"spec":{"nodeName":null}}`] : [];
  }

  #show() {
    const {spec, status = {}} = this.decision, now = this.#now, assumed = this.#assumed;
    redraw(this.compared, [now?.now, now?.summary, now?.stage, this.#error?.message, assumed?.summary],
      () => [recorded(this.decision), again(this.decision, now, this.#error), assumed ? supposed(assumed) : null]);
    const latest = new Map((now?.freshness ?? []).map((each) => [each.kind, each.latest]));
    const rows = Object.entries(spec.seen ?? {}).map(([kind, seen]) => ({kind, applied: Math.max(seen.revision, seen.applied ?? 0),
      latest: latest.get(kind), ageMs: seen.ageMs}));
    redraw(this.revisions.body, rows, () => (rows.length ? revisionTable(rows, {waits: !spec.node})
      : h("p", {class: "empty"}, "It read no cache, or the journal has dropped this detail.")));
    this.nodes?.update({decided: {nodes: status.nodes, reasons: status.reasons, scores: spec.scores, chosen: spec.node}, now: listed(now),
      assumed: listed(assumed), byRule: now?.details?.find((each) => each.title === "points now, by rule")?.lines});
    this.whatIf?.suggest(this.decision, now);
  }

  stop() { this.asking.stop(); }
}

const listed = (answer) => (answer?.nodes?.length ? answer.nodes : null);

function header({spec, metadata, status = {}}) {
  const {subject} = spec, about = {resource: subject.resource, namespace: subject.namespace, name: subject.name};
  return [h("p", {class: "over-title"}, `Decision ${metadata.name}`), h("h1", {},
    `${spec.controller}: ${spec.verdict}${spec.node ? ` ${spec.node}` : ""}`), outcomeState(status),
    h("div", {class: "headline"}, h("p", {class: "headline-text"}, "about ", name(about), spec.message ? `: ${spec.message}` : ""))];
}

const RESULTS = {committed: "ok", settled: "ok", conflict: "warn", rejected: "bad", unknown: "warn", held: "busy"};
const outcomeState = ({result}) => state(RESULTS[result] ?? "idle", result || "nothing to write");

function compareCard(title, kind, word, text) {
  return h("section", {class: "card compare", "aria-label": title}, h("h2", {}, title), h("p", {class: "compare-word"}, state(kind, word)),
    h("p", {class: "muted"}, text));
}

function recorded({spec, status = {}}) {
  const last = (status.outcomes ?? [])[status.outcomes?.length - 1];
  const what = spec.node ? `${spec.verdict} ${spec.node}` : spec.verdict;
  return compareCard("As decided", spec.node ? "ok" : "bad", what, [fullTime(spec.time),
    last?.message || (last ? `${last.result}${last.revision ? ` at revision ${last.revision}` : ""}` : "nothing was to be written")].join(" · "));
}

// Whether the same question has another answer now.
function again({spec}, answer, error) {
  if (error) return compareCard("Asked again now", "idle", "no answer", error.message);
  if (!answer) return compareCard("Asked again now", "busy", "asking …", "");
  const differs = answer.now ? isAnother(spec.node ?? "", answer) : null;
  if (differs === null) return compareCard("Asked again now", answer.asWanted ? "ok" : "idle", answer.verdict, answer.summary);
  return compareCard("Asked again now", differs ? "warn" : "ok", differs ? `another result: ${answer.now.answer}`
    : `the same result: ${answer.now.answer}`, answer.summary);
}

// Among nodes with as many points, any is the same answer.
function isAnother(chosen, {now, nodes = []}) {
  const here = nodes.find((row) => row.node === chosen && row.fits), best = nodes.find((row) => row.node === now.node);
  return (now.node ?? "") !== chosen && !(here && best && here.score !== null && here.score === best.score);
}

const supposed = (answer) => compareCard("What if", answer.now?.node ? "ok" : "bad", outcome(answer), answer.summary);
