// Workload: how far its replicas are, why, what to type, its pods, its revisions, what holds it.

import {ask, collection} from "../api.js";
import {asking} from "../asking.js";
import {announce, h, replace, setText} from "../dom.js";
import {card, problem, state} from "../parts.js";
import {live, subscribeAll} from "../store.js";
import {selects, selectorText} from "../selectors.js";
import {quoted, tool} from "../typed.js";
import {evidence, headline, proposals, redraw, toolChoice, verdictState} from "./why_parts.js";
import {history} from "./workload_history.js";
import {podTable} from "./workload_pods.js";
import {stages} from "./workload_stages.js";
import {steering} from "./workload_steering.js";

const KINDS = {Deployment: ["apps/v1", "deployments"], ReplicaSet: ["apps/v1", "replicasets"], Job: ["batch/v1", "jobs"]};
const OWN = "fathom.dev/v1alpha1";
const AUDIT_MS = 2_500;

export function mount(root, [namespace, kind, name], context) {
  context.title(`${name} · ${kind}`);
  const heading = h("h1", {}, name);
  if (!KINDS[kind]) {
    replace(root, heading, h("p", {}, `This page is about Deployments, ReplicaSets and Jobs, not about ${kind}. In a terminal: fathom why ${quoted(`${kind.toLowerCase()}/${name}`)} -n ${quoted(namespace)}`));
    return () => {};
  }
  const page = new WorkloadPage(namespace, kind, name);
  replace(root, h("div", {class: "page-head"}, h("p", {class: "over-title"}, `${kind} in ${namespace}`), heading, page.lead), page.body);
  return () => page.stop();
}

class WorkloadPage {
  #lists;
  #pods = null;
  #sets = null;
  #stops = [];
  #answer = null;
  #view = null;
  #viewError = null;
  #timeline = null;
  #verdict = "";

  constructor(namespace, kind, name) {
    Object.assign(this, {namespace, kind, name});
    this.lead = h("div", {class: "headline", "aria-live": "off"}, h("p", {class: "loading"}, "Asking …"));
    this.parts = {stages: stages(), pods: podTable(), steering: steering(), history: kind === "Deployment" ? history() : null,
      why: card("Why", {className: "why"}), type: card("What to type", {className: "type"})};
    this.parts.type.section.querySelector(".card-head").append(toolChoice(() => { this.#showAnswer(); this.#showObjects(); }));
    const {stages: stage, pods, steering: holds, history: past, why, type} = this.parts;
    this.body = h("div", {class: "two-columns"},
      h("div", {class: "stack"}, stage.section, why.section, pods.section),
      h("div", {class: "stack"}, type.section, past?.section, holds.section));
    this.#follow();
  }

  #progress() {
    return [...this.#lists.progress.values()].find(({spec}) => spec.workload.kind === this.kind && spec.workload.name === this.name);
  }

  get subject() { return {kind: this.kind, namespace: this.namespace, name: this.name}; }
  get object() { return this.#lists.object.get(`${this.namespace}/${this.name}`); }

  #follow() {
    const [version, plural] = KINDS[this.kind], here = (group, what) => live(collection(group, what, this.namespace));
    this.#lists = {
      object: live(`${collection(version, plural, this.namespace)}?fieldSelector=${encodeURIComponent(`metadata.name=${this.name}`)}`),
      progress: here(OWN, "workloadprogresses"), overrides: here(OWN, "scheduleroverrides"),
      autoscalers: here("autoscaling/v2", "horizontalpodautoscalers"), budgets: here("policy/v1", "poddisruptionbudgets"),
    };
    const {object, progress, overrides, autoscalers} = this.#lists;
    this.#stops.push(subscribeAll(Object.values(this.#lists), () => this.#showObjects()));
    this.why = asking({lists: [object, progress, overrides],
      question: (signal) => ask("explanations", {subject: this.subject}, this.namespace, {signal}),
      show: (answer) => { this.#answer = answer; this.#showAnswer(); this.#showObjects(); }, failed: (error) => this.#failed(error)});
    this.status = asking({lists: [progress, autoscalers],
      question: (signal) => ask("explanations", {subject: this.subject, view: "status"}, this.namespace, {signal}),
      show: (view) => { this.#view = view; this.#viewError = null; this.#showObjects(); },
        failed: (error) => { this.#viewError = error; this.#showObjects(); }});
  }

  // Its pods and ReplicaSets are found by its selector, which is known when it has been read.
  #followOwned(object) {
    const query = `?labelSelector=${encodeURIComponent(selectorText(object.spec?.selector))}`;
    this.#pods = live(collection("v1", "pods", this.namespace) + query);
    this.#stops.push(subscribeAll([this.#pods], () => { this.why.again(); this.#showObjects(); }));
    if (this.kind !== "Deployment") return;
    this.#sets = live(collection("apps/v1", "replicasets", this.namespace) + query);
    let known = "";
    this.#stops.push(subscribeAll([this.#sets], () => {
      const names = [...this.#sets.values()].map((set) => `${set.metadata.uid} ${revisionOf(set)}`).sort().join();
      if (names !== known) { known = names; this.#askAuthors(); }
      this.#showObjects();
    }));
  }

  // Asked twice: the audit log has a write a moment after it was made.
  async #askAuthors(again = true) {
    clearTimeout(this.authors);
    if (again) this.authors = setTimeout(() => this.#askAuthors(false), AUDIT_MS);
    try {
      this.#timeline = await ask("timelines", {subject: this.subject}, this.namespace);
      this.#showObjects();
    } catch { /* Who made a revision is not known then. */ }
  }

  #failed(error) {
    this.#answer = null;
    redraw(this.lead, error.message, () => problem(error));
    redraw(this.parts.why.body, null, () => h("p", {class: "empty"}, "There is no answer."));
    redraw(this.parts.type.body, null, () => h("p", {class: "empty"}, "There is no answer."));
  }

  #showAnswer() {
    const answer = this.#answer, {why, type} = this.parts;
    if (!answer) return;
    const {freshness, ...rest} = answer, [kind, word] = verdictState(answer);
    // A Deployment is as wanted when its pods are ready; that they get no requests is told by their count.
    const stuck = answer.asWanted ? this.#progress()?.status?.current?.stuckAt ?? "" : "";
    redraw(this.lead, [rest, stuck], () => [headline(answer), stuck ? state("warn", `yet stuck at ${stuck}`) : null]);
    redraw(why.body, [rest, freshness?.map(({ageMs, ...each}) => each)], () => evidence(answer, {skip: ["overrides"]}));
    setText(why.count, answer.wanted ? `${answer.ready ?? 0} of ${answer.wanted} ready` : "");
    redraw(type.body, [rest, tool()], () => proposals(answer,
      [["The same answer in a terminal", `fathom why ${this.kind.toLowerCase()}/${this.name} -n ${this.namespace}`]]));
    if (this.#verdict && this.#verdict !== word) announce(`${this.kind} ${this.name} is ${word}: ${answer.summary}`);
    this.#verdict = word;
    this.lead.dataset.kind = stuck ? "warn" : kind;
  }

  #showObjects() {
    const {object} = this;
    if (object && !this.#pods) this.#followOwned(object);
    const progress = this.#progress();
    this.parts.stages.update(progress, this.#lists.progress);
    this.parts.steering.update({overrides: this.#view?.activeOverrides ?? this.#answer?.activeOverrides ?? [], ...this.#holders(object),
      view: this.#view, error: this.#viewError});
    if (!object || !this.#pods) return;
    const sets = this.#sets ? [...this.#sets.values()].filter((set) => isOwned(set, object)) : [];
    const newest = Math.max(0, ...sets.map(revisionOf));
    const owners = new Map([[object.metadata.uid, true], ...sets.map((set) => [set.metadata.uid, revisionOf(set) === newest])]);
    const ownerOf = (pod) => pod.metadata.ownerReferences?.find((owner) => owner.controller)?.uid;
    this.parts.pods.update(this.#pods, [...this.#pods.values()].filter((pod) => owners.has(ownerOf(pod))), (pod) => owners.get(ownerOf(pod)) === false);
    this.parts.history?.update(this.#sets, object, sets, this.#timeline, tool());
  }

  #holders(object) {
    const {autoscalers, budgets} = this.#lists, labels = object?.spec?.template?.metadata?.labels ?? {};
    return {
      hidden: {autoscalers: isHidden(autoscalers), budgets: isHidden(budgets)},
      autoscalers: [...autoscalers.values()].filter(({spec}) => spec?.scaleTargetRef?.kind === this.kind && spec.scaleTargetRef.name === this.name),
      budgets: [...budgets.values()].filter(({spec}) => spec?.selector && selects(spec.selector, labels)),
    };
  }

  stop() {
    clearTimeout(this.authors);
    this.why.stop();
    this.status.stop();
    this.#stops.forEach((stop) => stop());
  }
}

const isHidden = (list) => list.state === "refused";
const isOwned = (child, owner) => (child.metadata.ownerReferences ?? []).some((each) => each.controller && each.uid === owner.metadata.uid);
const revisionOf = (set) => Number(set.metadata.annotations?.["deployment.kubernetes.io/revision"] ?? 0);
