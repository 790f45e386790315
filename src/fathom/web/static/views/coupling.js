// Coupling: who reads and writes what, and who fights over which field right now.

import {ask} from "../api.js";
import {announce, h, replace, setText} from "../dom.js";
import {fieldsText, model, narrowed, placed, shortName} from "../coupling_model.js";
import {card, command, empty, listTrouble, name, problem, state} from "../parts.js";
import {live} from "../store.js";
import {kindOf, plural} from "../text.js";
import {graphOf, tableOf} from "./coupling_graph.js";

export function mount(root, params, context) {
  context.title("Coupling");
  const signals = live("/apis/fathom.dev/v1alpha1/componentsignals");
  const graph = card("Who reads and writes what", {className: "coupling-graph"}), fighting = card("Fights now", {className: "fights"}), about = card("Selected");
  const shown = {text: params.query.get("of") ?? "", fightsOnly: false, table: false, selected: ""};
  // Of declarations, any namespace may be asked: one where the user may ask.
  const where = context.scope.namespace || undefined;
  let actors = null, fights = [], known = null, trouble = null, asking = null;
  const filter = filterBar(shown, draw);
  about.section.hidden = true;
  replace(root, h("div", {class: "page-head"}, h("h1", {}, "Coupling"), h("p", {class: "lead"}, "Controllers meet in objects, not in calls: who changes what another one decides from.")),
    h("div", {class: "coupling"}, h("div", {class: "stack"}, fighting.section, graph.section), about.section));

  function draw() {
    if (trouble) return replace(graph.body, trouble);
    if (!actors) return replace(graph.body, h("p", {class: "loading"}, "Reading the declarations …"));
    const whole = model(actors, fights), part = narrowed(whole, shown), layout = placed(part);
    if (shown.selected && !layout.at.has(shown.selected)) shown.selected = "";
    const focused = document.activeElement?.closest?.(".graph .node")?.dataset.id;
    setText(graph.count, `${plural(part.nodes.filter((each) => each.column === "k").length, "kind")}, ${plural(new Set(part.nodes.filter((each) => each.column !== "k").map((each) => each.name)).size, "actor")}`);
    replace(graph.body, filter.node, !part.nodes.length ? empty("Nothing has that name.") : shown.table ? tableOf(layout, select) : h("div", {class: "scroll"}, graphOf(layout, {selected: shown.selected, select})), shown.table ? null : legend());
    if (focused) [...graph.body.querySelectorAll(".node")].find((each) => each.dataset.id === focused)?.focus();
    return showSelected(whole);
  }

  function select(id) {
    shown.selected = shown.selected === id ? "" : id;
    draw();
  }

  function showSelected(whole) {
    const {selected} = shown;
    about.section.hidden = !selected;
    if (!selected) { about.section.of = ""; return; }
    const key = `${selected} ${JSON.stringify(fights)}`;
    if (about.section.of === key) return;
    about.section.of = key;
    const title = selected.slice(2);
    setText(about.section.querySelector("h2"), title);
    asking?.abort();
    const asked = h("div", {class: "asked"});
    replace(about.body, h("button", {type: "button", class: "quiet", onclick: () => select(selected)}, "Clear the selection"), details(whole, selected), asked);
    announce(`${title}: ${plural(whole.edges.filter((each) => each.from === selected || each.to === selected).length, "connection")}`);
    if (!selected.startsWith("k:") && actors.some((each) => each.name === title)) links(title, asked);
  }

  async function links(actor, place) {
    asking = new AbortController();
    try {
      const answer = await ask("couplings", {controller: actor}, where, {signal: asking.signal});
      replace(place, h("p", {}, answer.summary), formList(answer.links ?? []), h("p", {class: "hint"}, "In a terminal:"), command(`fathom coupling ${shortName(actor)}`));
    } catch (error) { if (error.name !== "AbortError") replace(place, problem(error)); }
  }

  function heard() {
    const refused = listTrouble(signals);
    if (refused) return replace(fighting.body, refused);
    const found = signals.get("/field-fights")?.status?.fights ?? [];
    const text = JSON.stringify(found);
    if (known === text) return;
    if (known !== null && found.length > fights.length) announce(`${plural(found.length, "fight")} now`);
    known = text;
    fights = found;
    setText(fighting.count, found.length ? String(found.length) : "");
    fighting.section.classList.toggle("going-on", Boolean(found.length));
    replace(fighting.body, found.length ? h("ul", {class: "rows"}, found.map((each) => fightRow(each, () => select(`k:${kindOf(each.resource)}`)))) : empty("None: no two writers undo each other."));
    draw();
  }

  ask("couplings", {controller: "*"}, where).then((answer) => { actors = answer.actors ?? []; draw(); }, (error) => { trouble = problem(error); draw(); });
  draw();
  const stop = signals.subscribe(heard);
  return () => { stop(); asking?.abort(); };
}

function filterBar(shown, draw) {
  const input = h("input", {id: "coupling-filter", type: "search", value: shown.text, placeholder: "autoscaling, Pod, …", autocomplete: "off", spellcheck: "false",
    oninput: () => { shown.text = input.value; keep(input, draw); }});
  const only = h("input", {id: "coupling-fights", type: "checkbox", onchange: () => { shown.fightsOnly = only.checked; keep(only, draw); }});
  const table = h("input", {id: "coupling-table", type: "checkbox", onchange: () => { shown.table = table.checked; keep(table, draw); }});
  return {node: h("div", {class: "filter-bar"}, h("label", {for: "coupling-filter"}, "Controller or kind"), input, h("label", {class: "check", for: "coupling-fights"}, only, "only fights"), h("label", {class: "check", for: "coupling-table"}, table, "as a table"))};
}

// The bar itself is moved when the card is drawn again: the focus goes with it.
function keep(input, draw) {
  const at = input.type === "search" ? input.selectionStart : null;
  draw();
  input.focus();
  if (at !== null) input.setSelectionRange(at, at);
}

const legend = () => h("p", {class: "hint legend"}, h("span", {class: "key solid"}), "a change makes the reader decide again ", h("span", {class: "key dashed"}), "seen only at its next pass ", h("span", {class: "key fight"}), "▲ a fight that goes on");

function details(graph, id) {
  const into = graph.edges.filter((each) => each.to === id), out = graph.edges.filter((each) => each.from === id);
  const actor = id.slice(2), other = id.startsWith("w:") ? `r:${actor}` : `w:${actor}`;
  const reads = id.startsWith("k:") ? out : graph.edges.filter((each) => each.to === (id.startsWith("r:") ? id : other));
  const written = id.startsWith("k:") ? into : graph.edges.filter((each) => each.from === (id.startsWith("w:") ? id : other));
  const end = (edge) => (edge.from === id || edge.from.slice(2) === actor && !id.startsWith("k:") ? edge.to : edge.from).slice(2);
  const part = (title, all) => (all.length ? h("div", {}, h("h3", {}, title), h("ul", {class: "plain-list"}, all.map((each) => h("li", {}, h("strong", {}, end(each)), h("span", {class: "hint"}, ` ${fieldsText(each)}${each.silent ? " · changes without a call" : ""}`), each.fights.length ? [" ", state("warn", "in a fight")] : null)))) : null);
  return id.startsWith("k:") ? [part("Written by", written), part("Read by", reads)] : [part("Writes", written), part("Decides from", reads)];
}

function formList(all) {
  const forms = new Map();
  for (const each of all) forms.set(each.form, [...(forms.get(each.form) ?? []), each.actor]);
  return h("dl", {class: "facts forms"}, [...forms].flatMap(([form, actors]) => {
    const names = [...new Set(actors)];
    return [h("dt", {}, form), h("dd", {}, `${names.slice(0, 8).map(shortName).join(", ")}${names.length > 8 ? ` and ${names.length - 8} more` : ""}`)];
  }));
}

const TARGETS = {Deployment: "deployment", ReplicaSet: "replicaset", Job: "job", Node: "node"};

function fightRow(fight, select) {
  const kind = kindOf(fight.resource), target = TARGETS[kind];
  const query = new URLSearchParams({target: `${target}/${fight.name}`, ...(fight.namespace ? {namespace: fight.namespace} : {}), ...(fight.writers.some((each) => each.includes("autoscal")) ? {change: "pauseAutoscaler"} : {})});
  return h("li", {class: "fight-row", "data-row": "fight"},
    h("div", {class: "fight-head"}, state("warn", fight.form === "TwoWriters" ? "two writers" : "oscillates"), name({resource: fight.resource, namespace: fight.namespace, name: fight.name}), h("code", {}, fight.field)),
    h("p", {}, fight.text), h("p", {class: "fight-writers"}, "Writers: ", fight.writers.map((each, at) => [at ? " and " : "", h("strong", {}, each)])),
    h("div", {class: "actions"}, h("button", {type: "button", onclick: select}, `Show ${kind} in the graph`), target ? h("a", {class: "button", href: `#/overrides/new?${query}`}, "Steer it with an override") : null));
}
