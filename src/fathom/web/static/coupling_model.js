// Who reads and writes what, as a graph of three layers: writers, kinds, readers. Pure: declarations and fights in,
// nodes and edges with places out.
//
//   model(actors, fights)     {nodes, edges, fights}; ids: "w:ACTOR", "k:KIND", "r:ACTOR"
//   narrowed(graph, text)     what matches, and its neighbours
//   placed(graph)             {width, height, nodes, edges, heads}, with x, y of each node

import {kindOf} from "./text.js";

const ROW = 22, GROUP = 26, TOP = 34, PAD = 10;
export const COLUMNS = {w: 2, k: 440, r: 798};
export const WIDTH = 1052, BOX = {w: 250, k: 190, r: 250};

export const kindName = (kind) => (kind === "*" ? "any kind" : kind);

// The part of an actor's name before its first slash: where it runs.
export const groupOf = (actor) => (actor.includes("/") ? actor.slice(0, actor.indexOf("/")) : "");
export const shortName = (actor) => actor.slice(actor.indexOf("/") + 1);

export function model(actors, fights) {
  const nodes = new Map(), edges = new Map();
  const node = (id, column, name, group, known = true) => { if (!nodes.has(id)) nodes.set(id, {id, column, name, group, known}); };
  const edge = (from, to, fields) => {
    const id = `${from} ${to}`, found = edges.get(id);
    if (found) fields.forEach((each) => { if (!found.fields.includes(each)) found.fields.push(each); });
    else edges.set(id, {id, from, to, fields: [...fields], fights: [], silent: false});
    return edges.get(id);
  };
  for (const actor of actors) {
    for (const write of actor.writes ?? []) {
      const does = [...(write.fields ?? []), ...(write.creates ? ["creates"] : []), ...(write.deletes ? ["deletes"] : [])];
      node(`w:${actor.name}`, "w", actor.name, groupOf(actor.name));
      node(`k:${write.kind}`, "k", kindName(write.kind), "");
      edge(`w:${actor.name}`, `k:${write.kind}`, does);
    }
    for (const read of actor.reads ?? []) {
      node(`r:${actor.name}`, "r", actor.name, groupOf(actor.name));
      node(`k:${read.kind}`, "k", kindName(read.kind), "");
      const made = edge(`k:${read.kind}`, `r:${actor.name}`, read.fields ?? []);
      made.silent = !read.calls && read.source !== "commit";
    }
  }
  for (const fight of fights) {
    const kind = kindOf(fight.resource);
    node(`k:${kind}`, "k", kind, "");
    for (const writer of fight.writers ?? []) {
      const known = actors.find((each) => each.name === writer);
      node(`w:${writer}`, "w", writer, known ? groupOf(writer) : "people and other programs", Boolean(known));
      edge(`w:${writer}`, `k:${kind}`, [fight.field]).fights.push(fight);
    }
  }
  return {nodes: [...nodes.values()], edges: [...edges.values()]};
}

// "spec, status": what of a kind an edge is about.
export const fieldsText = (edge) => edge.fields.map((each) => (each === "*" ? "all fields" : each)).join(", ") || "existence";

// What a selection lights up: the node itself (of an actor, as writer and as reader), its edges, and of an actor also
// who else writes what it decides from. {own, edges, near, nodes}: sets of ids.
export function lit(graph, selected) {
  const own = new Set(selected.startsWith("k:") ? [selected] : [`w:${selected.slice(2)}`, `r:${selected.slice(2)}`]);
  const edges = graph.edges.filter((each) => own.has(each.from) || own.has(each.to));
  const inputs = new Set(selected.startsWith("k:") ? [] : edges.filter((each) => own.has(each.to)).map((each) => each.from));
  const near = graph.edges.filter((each) => inputs.has(each.to) && !own.has(each.from));
  return {own, edges: new Set(edges.map((each) => each.id)), near: new Set(near.map((each) => each.id)), nodes: new Set([...own, ...[...edges, ...near].flatMap((each) => [each.from, each.to])])};
}

// Nodes whose names contain the text, and everything that an edge joins to them.
export function narrowed(graph, {text = "", fightsOnly = false}) {
  const wanted = text.trim().toLowerCase();
  let edges = fightsOnly ? graph.edges.filter((each) => each.fights.length || fought(graph, each)) : graph.edges;
  if (wanted) {
    const hits = new Set(graph.nodes.filter((each) => each.name.toLowerCase().includes(wanted)).map((each) => each.id));
    edges = edges.filter((each) => hits.has(each.from) || hits.has(each.to));
  }
  const kept = new Set(edges.flatMap((each) => [each.from, each.to]));
  return {nodes: graph.nodes.filter((each) => kept.has(each.id)), edges};
}

// A reader of a kind that is fought over decides from the fight.
const fought = (graph, edge) => edge.from.startsWith("k:") && graph.edges.some((each) => each.to === edge.from && each.fights.length);

export function placed(graph) {
  const by = {w: [], k: [], r: []};
  graph.nodes.forEach((each) => by[each.column].push({...each}));
  by.k.sort((one, other) => degree(graph, other.id) - degree(graph, one.id) || one.name.localeCompare(other.name));
  const heads = [], contested = new Set(graph.edges.filter((each) => each.fights.length).map((each) => each.to));
  const rows = {k: stacked(by.k, "", heads, "k")};
  for (let turn = 0; turn < 3; turn++) {
    for (const column of ["w", "r"]) {
      const center = centers(graph, by.k);
      by[column].sort((one, other) => rank(one.group) - rank(other.group) || one.group.localeCompare(other.group) || center(one.id) - center(other.id));
      stacked(by[column], column, heads, column);
    }
    const center = centers(graph, [...by.w, ...by.r]);
    // What is fought over comes first, where it is seen.
    by.k.sort((one, other) => contested.has(other.id) - contested.has(one.id) || center(one.id) - center(other.id) || one.name.localeCompare(other.name));
    stacked(by.k, "", heads, "k");
  }
  heads.length = 0;
  const height = Math.max(...["w", "k", "r"].map((column) => stacked(by[column], column === "k" ? "" : column, heads, column)), rows.k);
  spreadOut(by.k, height);
  const at = new Map([...by.w, ...by.k, ...by.r].map((each) => [each.id, each]));
  return {width: WIDTH, height: height + PAD, nodes: [...at.values()], at, heads, edges: graph.edges};
}

const rank = (group) => (group.startsWith("people") ? -1 : group === "" ? 0 : 1);
const degree = (graph, id) => graph.edges.filter((each) => each.from === id || each.to === id).length;

// The mean place of a node's neighbours: nodes near their neighbours cross fewer edges.
function centers(graph, placedNodes) {
  const y = new Map(placedNodes.map((each) => [each.id, each.y]));
  return (id) => {
    const near = graph.edges.filter((each) => each.from === id || each.to === id).map((each) => y.get(each.from === id ? each.to : each.from)).filter((each) => each !== undefined);
    return near.length ? near.reduce((sum, each) => sum + each, 0) / near.length : 0;
  };
}

function stacked(nodes, grouped, heads, column) {
  let y = TOP, group = null;
  for (const node of nodes) {
    if (grouped && node.group !== group) {
      if (group !== null) y += 8;
      if (node.group) { heads.push({column, y: y + 12, text: node.group}); y += GROUP; }
      group = node.group;
    }
    node.x = COLUMNS[column];
    node.y = y;
    y += ROW;
  }
  return y;
}

function spreadOut(nodes, height) {
  const step = Math.max(ROW, (height - TOP) / Math.max(1, nodes.length));
  nodes.forEach((node, at) => { node.y = TOP + at * step + (step - ROW) / 2; });
}
