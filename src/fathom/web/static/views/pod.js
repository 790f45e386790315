// Pod: why it is as it is, what happened to it and why, its log, every attempt to place it.

import {OWN, ask, collection, get} from "../api.js";
import {asking} from "../asking.js";
import {announce, h, replace} from "../dom.js";
import {card, name, problem, setState, since, state} from "../parts.js";
import {BAD, lastRestart, podState, restarts} from "../pod_state.js";
import {live} from "../store.js";
import {age} from "../text.js";
import {tool} from "../typed.js";
import {attemptsCard} from "./pod_attempts.js";
import {logCard} from "./pod_log.js";
import {timelineCard} from "./pod_timeline.js";
import {evidence, headline, proposals, redraw, toolChoice, verdictState} from "./why_parts.js";

const field = (text) => `?fieldSelector=${encodeURIComponent(text)}`;

export function mount(root, [namespace, podName], context) {
  context.title(`${podName} · Pod`);
  const page = new PodPage(namespace, podName);
  replace(root, h("div", {class: "page-head"}, h("p", {class: "over-title"}, "Pod in ", namespace), h("h1", {}, podName), page.state, page.lead), page.body);
  return () => page.stop();
}

class PodPage {
  #answer = null;
  #verdict = "";

  constructor(namespace, podName) {
    Object.assign(this, {namespace, podName, subject: {kind: "Pod", namespace, name: podName}});
    this.state = state("idle", "");
    this.lead = h("div", {class: "headline"}, h("p", {class: "loading"}, "Asking …"));
    const path = `${collection("v1", "pods", namespace)}/${encodeURIComponent(podName)}`;
    this.parts = {why: card("Why", {className: "why"}), type: card("What to type", {className: "type"}),
      facts: card("The pod", {className: "pod-facts"}), timeline: timelineCard(), log: logCard(path), attempts: attemptsCard()};
    const {why, type, facts, timeline, log, attempts} = this.parts;
    type.section.querySelector(".card-head").append(toolChoice(() => this.#showAnswer()));
    this.body = h("div", {class: "stack"},
      h("div", {class: "two-columns"}, h("div", {class: "stack"}, why.section, attempts.section), h("div", {class: "stack"}, type.section, facts.section)),
      timeline.section, log.section);
    this.#follow();
  }

  #follow() {
    const {namespace, podName, subject, parts} = this, pods = live(collection("v1", "pods", namespace) + field(`metadata.name=${podName}`));
    const events = live(collection("v1", "events", namespace) + field(`involvedObject.name=${podName}`));
    const lists = [pods, events];
    this.pods = pods;
    this.asked = [
      asking({lists, question: (signal) => ask("explanations", {subject}, namespace, {signal}),
        show: (answer) => { this.#answer = answer; this.#showAnswer(); }, failed: (error) => this.#failed(error)}),
      asking({lists, question: (signal) => ask("timelines", {subject}, namespace, {signal}), show: parts.timeline.update, failed: parts.timeline.failed}),
      asking({lists, question: (signal) => this.#decisions(signal), show: parts.attempts.update, failed: parts.attempts.failed}),
    ];
    this.stopPods = pods.subscribe(() => this.#showPod());
  }

  async #decisions(signal) {
    const query = field(`spec.subject.resource=pods,spec.subject.name=${this.podName}`);
    const listed = await get(`${OWN}/namespaces/${encodeURIComponent(this.namespace)}/decisions${query}`, {signal});
    const uid = this.pod?.metadata.uid;
    return (listed.items ?? []).filter((each) => !uid || !each.spec.subject.uid || each.spec.subject.uid === uid);
  }

  get pod() { return this.pods.get(`${this.namespace}/${this.podName}`); }

  #showPod() {
    const {pod, parts} = this;
    if (!pod) {
      setState(this.state, "idle", this.pods.state === "live" ? "does not exist" : this.pods.state === "refused" ? "hidden" : "");
      return redraw(parts.facts.body, this.pods.error, () => h("p", {class: "empty"},
        this.pods.error || "There is no such pod now. What is on record about it is below."));
    }
    const {kind, word} = podState(pod);
    setState(this.state, kind, word);
    redraw(parts.facts.body, [pod.spec, pod.status?.podIP, pod.status?.containerStatuses, pod.status?.initContainerStatuses, pod.status?.conditions],
      () => podFacts(pod));
    return parts.log.update(pod);
  }

  #failed(error) {
    this.#answer = null;
    redraw(this.lead, error.message, () => problem(error));
    for (const part of [this.parts.why, this.parts.type]) redraw(part.body, null, () => h("p", {class: "empty"}, "There is no answer."));
  }

  #showAnswer() {
    const answer = this.#answer, {why, type} = this.parts;
    if (!answer) return;
    const {freshness, ...rest} = answer, [kind, word] = verdictState(answer);
    redraw(this.lead, rest, () => headline(answer));
    redraw(why.body, [rest, freshness?.map(({ageMs, ...each}) => each)], () => evidence(answer));
    redraw(type.body, [rest, tool()], () => proposals(answer, this.#others(answer)));
    if (this.#verdict && this.#verdict !== word) announce(`Pod ${this.podName} is ${word}: ${answer.summary}`);
    this.#verdict = word;
    this.lead.dataset.kind = kind;
  }

  #others() {
    const {podName, namespace} = this;
    return [["The same answer in a terminal", `fathom why pod/${podName} -n ${namespace}`], ["Its timeline", `fathom timeline pod/${podName} -n ${namespace}`]];
  }

  stop() {
    this.asked.forEach((each) => each.stop());
    this.stopPods();
    this.parts.log.stop();
  }
}

function podFacts(pod) {
  const {metadata, spec = {}, status = {}} = pod, owner = metadata.ownerReferences?.find((each) => each.controller);
  const fact = (term, ...value) => [h("dt", {}, term), h("dd", {}, value)];
  const ended = lastRestart(pod);
  return [h("dl", {class: "facts"},
    owner ? fact("made by", ownerName(owner, pod)) : null,
    fact("node", spec.nodeName ?? h("span", {class: "muted"}, "none yet")),
    status.podIP ? fact("address", h("span", {class: "mono"}, status.podIP)) : null,
    fact("age", since(metadata.creationTimestamp)),
    fact("restarts", `${restarts(pod)}${ended ? `, the last ${age(ended)} ago` : ""}`),
    spec.priorityClassName ? fact("priority", spec.priorityClassName) : null),
  h("h3", {}, "Containers"), h("ul", {class: "lines"}, (spec.containers ?? []).map((each) => containerLine(each, status.containerStatuses))),
  h("h3", {}, "Conditions"), conditions(status.conditions ?? [])];
}

function conditions(all) {
  const met = all.filter((each) => each.status === "True"), others = all.filter((each) => each.status !== "True");
  return [h("ul", {class: "lines"}, others.map((each) => h("li", {}, state("warn", each.type),
    ` ${each.reason ?? ""}${each.message ? `: ${each.message}` : ""}`))),
    h("ul", {class: "met"}, met.map((each) => h("li", {}, state("ok", each.type))))];
}

// A ReplicaSet of a Deployment is named after it and its template: the Deployment is what people know.
function ownerName(owner, pod) {
  const hash = pod.metadata.labels?.["pod-template-hash"], {namespace} = pod.metadata;
  if (owner.kind === "ReplicaSet" && hash && owner.name.endsWith(`-${hash}`)) return name({kind: "Deployment", namespace,
    name: owner.name.slice(0, -hash.length - 1)}, {withNamespace: false});
  return name({kind: owner.kind, namespace, name: owner.name}, {withNamespace: false});
}

function containerLine(container, statuses = []) {
  const status = statuses.find((each) => each.name === container.name), {running, waiting, terminated} = status?.state ?? {};
  const shown = running ? state(status.ready ? "ok" : "warn", status.ready ? "ready" : "runs, not ready") : waiting
    ? state(BAD.test(waiting.reason ?? "") ? "bad" : "busy", waiting.reason ?? "waits") : terminated
    ? state(terminated.exitCode ? "bad" : "idle", `exit code ${terminated.exitCode}`) : state("idle", "not started");
  return h("li", {}, h("strong", {}, container.name), " ", shown, " ", h("code", {}, container.image));
}
