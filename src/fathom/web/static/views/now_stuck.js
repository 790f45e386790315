// Whatever is stuck, worst first: the same answer as `fathom why` without arguments, asked again when objects change.

import {SYSTEM, ask} from "../api.js";
import {asking} from "../asking.js";
import {announce, h, keyed, replace, setText} from "../dom.js";
import {card, command, empty, name, problem, setState, state} from "../parts.js";
import {live, subscribeAll} from "../store.js";
import {kindOf, plural} from "../text.js";

const GAP_MS = 1_000;     // Between two questions, at least;
const GAP_FACTOR = 9;     // and so many times as long as the last answer took: a page costs a tenth of a thread at most.
const ANYWAY_MS = 30_000; // What waits may change without any object doing so.
const SHOWN_MAX = 100;
const FIRST = 5;          // So many are shown at first, so that the rest of the page stays in sight.

export function stuck(scope, tell) {
  const {section, body, count} = card("Stuck, worst first", {className: "stuck"});
  const rows = h("ol", {class: "stuck-rows"}), note = h("div", {class: "stuck-note"});
  replace(body, h("p", {class: "loading"}, "Asking …"));
  let last = null, unfolded = false, fold = null, known = null;

  function failed(error) {
    setText(count, "");
    tell({kind: "warn", text: "what is stuck is not known"});
    replace(body, problem(error));
    known = null;
  }

  function show(answer) {
    last = answer;
    const all = (answer.items ?? []).slice(0, SHOWN_MAX), items = unfolded ? all : all.slice(0, FIRST), total = (answer.items ?? []).length;
    const bad = (answer.items ?? []).filter((item) => kindOfTrouble(item)[0] === "bad").length;
    const those = (kind) => (answer.items ?? []).filter((item) => item.kind === kind).length;
    const wanted = those("intended"), passing = those("passing"), rest = total - wanted - passing;
    setText(count, [rest ? plural(rest, "object") : "", passing ? `${passing} passing` : "", wanted ? `${wanted} on purpose` : ""].filter(Boolean).join(", "));
    tell(rest ? {kind: bad ? "bad" : "warn", text: `${rest} stuck`} : {kind: "ok", text: "nothing is stuck"});
    if (body.firstChild !== rows && body.firstChild !== note) replace(body, rows, note);
    keyed(rows, items, {key: keyOfItem, make: makeRow, update: updateRow});
    const gaps = (answer.gaps ?? []).map((gap) => h("p", {class: "hint"}, `No data from ${gap.source}: ${gap.why}`));
    replace(note, all.length > FIRST ? foldButton(all.length) : null, total ? null : empty("Nothing is stuck: every object is as wanted."),
      total > SHOWN_MAX ? h("p", {class: "hint"}, `and ${total - SHOWN_MAX} more: fathom why -A`) : null, gaps);
    sayChanges(all);
  }

  // Made anew only when its words change: it may have the focus.
  function foldButton(total) {
    const words = unfolded ? `Show the worst ${FIRST} only` : `Show all ${total}`;
    if (fold?.textContent !== words) fold = h("button", {type: "button", class: "fold", onclick: () => { unfolded = !unfolded; show(last); fold.focus(); }}, words);
    return fold;
  }

  function sayChanges(items) {
    const now = new Map(items.map((item) => [keyOfItem(item), item]));
    if (known) {
      for (const [key, item] of now) if (!known.has(key)) announce(`Stuck: ${item.summary}`);
      for (const [key, item] of known) if (!now.has(key)) announce(`No longer stuck: ${title(item)}`);
    }
    known = now;
  }

  const lists = [[scope.path("fathom.dev/v1alpha1", "workloadprogresses"), ofProgress], ["/api/v1/nodes", ofNode],
    [scope.path("fathom.dev/v1alpha1", "scheduleroverrides"), ofOverride], [scope.path("v1", "pods"), ofPod]]
    .map(([path, read]) => ({list: live(path), read}));
  const spec = {subject: {kind: "namespace", name: scope.namespace}, view: "stuck"};
  const asked = asking({
    question: (signal) => ask("explanations", spec, scope.namespace || SYSTEM, {signal}), show, failed,
    gapMs: GAP_MS, factor: GAP_FACTOR, longestMs: Infinity, anywayMs: ANYWAY_MS,
  });
  let before = "";
  const stop = subscribeAll(lists.map((each) => each.list), () => {
    const now = lists.map(({list, read}) => signature(list, read)).join("|");
    if (now !== before) asked.again();
    before = now;
  });
  return {section, stop() { asked.stop(); stop(); }};
}

// What of an object can change the answer. Most changes of a busy cluster are none of these, and the answer costs the
// server a look at everything.
const signatures = new WeakMap();

function signature(list, read) {
  let text = "";
  for (const object of list.values()) {
    let own = signatures.get(object);
    if (own === undefined) signatures.set(object, own = read(object));
    if (own) text += `${object.metadata.uid}${own};`;
  }
  return text;
}

const conditions = (object) => (object.status?.conditions ?? []).map((each) => `${each.type}${each.status}${each.reason ?? ""}`).join();
const isOwned = (object) => (object.metadata.ownerReferences ?? []).some((owner) => owner.controller);
const ofProgress = (object) => {
  const {lastAction, ...current} = object.status?.current ?? {};
  return JSON.stringify(current) + conditions(object);
};
const ofNode = (object) => `${conditions(object)}${object.spec?.unschedulable ?? ""}`;
const ofOverride = (object) => `${object.metadata.generation}${conditions(object)}${JSON.stringify(object.status?.changes ?? [])}`;
const ofPod = (object) => (isOwned(object) ? "" : `${object.status?.phase}${object.spec?.nodeName ?? ""}${conditions(object)}`);

const keyOfItem = ({subject}) => `${subject.resource}/${subject.namespace}/${subject.name}`;
const title = ({subject}) => `${kindOf(subject.resource)} ${subject.name}`;

// A mark and a word: what is down, what is partly there, what passes by itself, what people wanted.
function kindOfTrouble(item) {
  if (item.kind === "intended") return ["idle", "on purpose"];
  if (item.kind === "passing") return ["busy", "passing"];
  if (item.stage === "control-plane") return ["bad", "control plane"];
  if (item.wanted === null || item.wanted === undefined) return ["bad", "stuck"];
  return item.ready ? ["warn", "partly"] : ["bad", "down"];
}

function makeRow(item) {
  const parts = {
    state: state("bad", ""), name: name(item.subject), counts: h("span", {class: "counts"}),
    summary: h("p", {class: "summary"}), command: h("div", {class: "stuck-command"}),
  };
  const row = h("li", {class: "stuck-row", "data-row": "stuck"},
    h("div", {class: "stuck-head"}, parts.state, parts.name, parts.counts), parts.summary, parts.command);
  row.parts = parts;
  return row;
}

function updateRow(row, item) {
  const {parts} = row;
  setState(parts.state, ...kindOfTrouble(item));
  row.dataset.kind = kindOfTrouble(item)[0];
  setText(parts.counts, item.wanted ? `${item.ready ?? 0} of ${item.wanted} ready` : "");
  const said = item.change?.command ?? "";
  setText(parts.summary, item.summary);
  if (row.said !== said) replace(parts.command, said ? command(said) : null);
  row.said = said;
}
