// The nodes, by zone: state and load of each. The load is what pods request, of what the node has to give.

import {h, keyed, replace, setText, slices} from "../dom.js";
import {card, empty, listTrouble, meter, setMeter, setState, state} from "../parts.js";
import {live, subscribeAll} from "../store.js";
import {byName, cpu, memory, percent, plural, quantity} from "../text.js";

const ZONE = "topology.kubernetes.io/zone";
const FULL = 0.9;
const DENSE = 30;  // More nodes get smaller tiles.
const FEW = 4;     // Zones of so few nodes stand side by side.
const HELD = "fathom.dev/Held";

export function nodeMap(scope, tell) {
  const {section, body, count} = card("Nodes", {className: "map"});
  const nodes = live("/api/v1/nodes"), pods = live("/api/v1/pods");
  const zones = h("div", {class: "zones"});
  let shown = -1, stopSlices = () => {};

  function render() {
    const trouble = listTrouble(nodes);
    if (trouble) {
      tell({kind: "", text: ""});
      return replace(body, trouble);
    }
    if (shown === nodes.changes + pods.changes) return;
    shown = nodes.changes + pods.changes;
    if (body.firstChild !== zones) replace(body, zones);
    const rows = read(nodes, pods), bad = rows.filter((row) => row.kind === "bad").length;
    setText(count, plural(rows.length, "node"));
    tell(bad ? {kind: "bad", text: `${bad} of ${plural(rows.length, "node")} not ready`} : {kind: "ok", text: plural(rows.length, "node")});
    if (!rows.length) return replace(body, empty("There is no node: pods wait until one joins."));
    // The zones first, then what is in them, in short tasks: a large cluster has many nodes.
    const all = grouped(rows);
    const small = Math.max(...all.map((zone) => zone.rows.length)) <= FEW;
    zones.className = rows.length > DENSE ? "zones dense" : small ? "zones few" : "zones";
    keyed(zones, all, {key: (zone) => zone.name, make: makeZone, update: (node, zone) => { zone.element = node; }});
    stopSlices();
    stopSlices = slices(all, (zone) => updateZone(zone.element, zone));
  }

  const stop = subscribeAll([nodes, pods], render);
  return {section, stop() { stopSlices(); stop(); }};
}

// Requests of a pod, read once: an object that changes is another object.
const requests = new WeakMap();

function requestsOf(pod) {
  let sum = requests.get(pod);
  if (sum) return sum;
  sum = {cpu: 0, memory: 0};
  const initial = {cpu: 0, memory: 0};
  for (const container of pod.spec?.containers ?? []) add(sum, container);
  for (const container of pod.spec?.initContainers ?? []) {
    if (container.restartPolicy === "Always") add(sum, container);
    else for (const name of ["cpu", "memory"]) initial[name] = Math.max(initial[name], quantity(container.resources?.requests?.[name]));
  }
  for (const name of ["cpu", "memory"]) sum[name] = Math.max(sum[name], initial[name]) + quantity(pod.spec?.overhead?.[name]);
  requests.set(pod, sum);
  return sum;
}

function add(sum, container) {
  for (const name of ["cpu", "memory"]) sum[name] += quantity(container.resources?.requests?.[name]);
}

const capacities = new WeakMap();

function capacityOf(node) {
  let found = capacities.get(node);
  if (!found) {
    const {cpu: cores, memory: bytes, pods} = node.status?.allocatable ?? {};
    capacities.set(node, found = {cpu: quantity(cores), memory: quantity(bytes), pods: quantity(pods)});
  }
  return found;
}

function read(nodes, pods) {
  const byNode = new Map();
  for (const node of nodes.values()) byNode.set(node.metadata.name, {node, cpu: 0, memory: 0, pods: 0, failing: 0});
  for (const pod of pods.values()) {
    const row = byNode.get(pod.spec?.nodeName);
    if (!row || pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed") continue;
    const wanted = requestsOf(pod);
    row.cpu += wanted.cpu;
    row.memory += wanted.memory;
    row.pods += 1;
  }
  return [...byNode.values()].map((row) => ({...row, ...stateOf(row.node), known: pods.state === "live"}));
}

function stateOf(node) {
  const condition = (type) => (node.status?.conditions ?? []).find((each) => each.type === type);
  const ready = condition("Ready");
  if (ready?.status !== "True") return {kind: "bad", word: ready?.status === "Unknown" ? "silent" : "not ready", why: ready?.message ?? "its agent has not reported"};
  if (condition(HELD)?.status === "True") return {kind: "warn", word: "held", why: condition(HELD).message};
  if (node.spec?.unschedulable) return {kind: "warn", word: "cordoned", why: "it takes no new pods"};
  const pressure = (node.status?.conditions ?? []).find((each) => each.type.endsWith("Pressure") && each.status === "True");
  if (pressure) return {kind: "warn", word: pressure.type, why: pressure.message ?? ""};
  return {kind: "ok", word: "ready", why: ""};
}

const ORDER = {bad: 0, warn: 1, ok: 2};

function grouped(rows) {
  const zones = new Map();
  for (const row of rows) {
    const name = row.node.metadata.labels?.[ZONE] ?? "";
    if (!zones.has(name)) zones.set(name, {name, rows: []});
    zones.get(name).rows.push(row);
  }
  for (const zone of zones.values()) zone.rows.sort((one, other) => byName(one.node.metadata.name, other.node.metadata.name));
  return [...zones.values()].sort((one, other) => byName(one.name, other.name));
}

function makeZone(zone) {
  const parts = {state: state("ok", ""), tiles: h("ul", {class: "tiles"}), load: h("span", {class: "zone-load"})};
  const node = h("div", {class: "zone"}, h("div", {class: "zone-head"}, h("h3", {}, zone.name || "without a zone"), parts.state, parts.load), parts.tiles);
  node.parts = parts;
  return node;
}

function updateZone(node, zone) {
  const {parts} = node, kinds = zone.rows.map((row) => row.kind);
  const bad = kinds.filter((kind) => kind === "bad").length, warn = kinds.filter((kind) => kind === "warn").length;
  setState(parts.state, bad ? "bad" : warn ? "warn" : "ok",
    bad ? `${bad} of ${zone.rows.length} not ready` : warn ? `${warn} of ${zone.rows.length} limited` : `${zone.rows.length} ready`);
  const share = Math.max(...["cpu", "memory"].map((name) => sum(zone.rows, (row) => row[name]) / (sum(zone.rows, (row) => capacityOf(row.node)[name]) || 1)));
  setText(parts.load, `${percent(share)} requested · ${plural(sum(zone.rows, (row) => row.pods), "pod")}`);
  keyed(parts.tiles, zone.rows, {key: (row) => row.node.metadata.name, make: makeTile, update: updateTile});
}

const sum = (rows, value) => rows.reduce((total, row) => total + value(row), 0);

function makeTile(row) {
  const parts = {state: state("ok", ""), cpu: meter(0, ""), memory: meter(0, ""), pods: h("span", {class: "tile-pods"})};
  const node = h("li", {class: "tile", "data-node": row.node.metadata.name},
    h("div", {class: "tile-head"}, h("span", {class: "tile-name"}, row.node.metadata.name), parts.state),
    h("div", {class: "tile-load"}, h("span", {class: "tile-label", "aria-hidden": "true"}, "cpu"), parts.cpu, h("span", {class: "tile-label", "aria-hidden": "true"}, "mem"), parts.memory),
    parts.pods);
  node.parts = parts;
  return node;
}

function updateTile(node, row) {
  // Most tiles stay as they are from one batch to the next.
  if (node.shown?.node === row.node && ["cpu", "memory", "pods"].every((name) => node.shown[name] === row[name])) return;
  node.shown = row;
  const {parts} = node, most = capacityOf(row.node);
  const kind = `tile ${row.kind}`;
  if (node.className !== kind) node.className = kind;
  setState(parts.state, row.kind, row.word);
  if (node.title !== row.why) node.title = row.why;
  load(parts.cpu, row.cpu, most.cpu, (value) => `${cpu(value)} cpu`);
  load(parts.memory, row.memory, most.memory, (value) => `${memory(value)} memory`);
  setText(parts.pods, plural(row.pods, "pod"));
}

function load(node, used, most, text) {
  const share = most ? used / most : 0;
  setMeter(node, share, `${text(used)} of ${text(most)} requested`, share >= FULL ? "full" : "");
}
