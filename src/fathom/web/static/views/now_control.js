// The control plane: who leads, what it reports about itself, the brake on node actions, circuit breakers.

import {ApiError, SYSTEM, get} from "../api.js";
import {h, keyed, replace, set, setText} from "../dom.js";
import {card, listTrouble, setState, since, state} from "../parts.js";
import {everySecond, live, subscribeAll} from "../store.js";
import {age, byName, millis, plural, serverNow} from "../text.js";

const BREAKERS_MS = 10_000;
const BREAKER = /^fathom_breaker_state\{component="([^"]*)",state="([^"]*)"\} 1/;
const PROCESS = "metrics.";
const FIGHTS = "field-fights";

export function controlPlane(tell) {
  const {section, body, count} = card("Control plane", {className: "control"});
  const leases = live(`/apis/coordination.k8s.io/v1/namespaces/${SYSTEM}/leases`);
  const slices = live(`/apis/discovery.k8s.io/v1/namespaces/${SYSTEM}/endpointslices`);
  const brakes = live(`/api/v1/namespaces/${SYSTEM}/configmaps?fieldSelector=metadata.name%3Dnode-brake-status`);
  const signals = live("/apis/fathom.dev/v1alpha1/componentsignals");
  const rows = h("ul", {class: "control-rows"});
  let breakers = {state: "reading", open: [], closed: [], message: ""}, over = false;
  replace(body, rows);

  function render() {
    const trouble = leases.state === "refused" ? listTrouble(leases) : null;
    if (trouble) { tell({kind: "", text: ""}); return replace(body, trouble); }
    if (body.firstChild !== rows) replace(body, rows);
    const all = [...leaderRows(leases), ...signalRows(signals), ...brakeRow(brakes), ...breakerRow(breakers)];
    const bad = all.filter((row) => row.kind === "bad" || row.kind === "warn");
    setText(count, bad.length ? plural(bad.length, "trouble") : leases.state === "live" ? "well" : "");
    tell(bad.length ? {kind: bad.some((row) => row.kind === "bad") ? "bad" : "warn", text: `control plane: ${bad[0].word}`} : {kind: "ok", text: "control plane well"});
    keyed(rows, all, {key: (row) => row.key, make: makeRow, update: updateRow});
  }

  async function readBreakers() {
    const found = {state: "live", open: [], closed: [], message: ""};
    const names = [...slices.values()].map((slice) => slice.metadata.name).filter((each) => each.startsWith(PROCESS));
    for (const name of names) {
      try {
        readStates(await get(`/metrics/${encodeURIComponent(name.slice(PROCESS.length))}`, {raw: true}), found);
      } catch (error) {
        if (error instanceof ApiError) found.message = error.status === 403 ? "you may not read them" : `${name.slice(PROCESS.length)} does not say`;
      }
    }
    if (over) return;
    breakers = found;
    render();
  }

  let first = true;
  const stops = [subscribeAll([leases, slices, brakes, signals], () => {
    render();
    if (first && slices.state === "live") { first = false; readBreakers(); }
  }), everySecond(render)];
  const timer = setInterval(() => { if (!document.hidden) readBreakers(); }, BREAKERS_MS);
  return {section, stop() { over = true; clearInterval(timer); stops.forEach((stop) => stop()); }};
}

function readStates(text, found) {
  for (const line of text.split("\n")) {
    const matched = line.startsWith("fathom_breaker_state") ? BREAKER.exec(line) : null;
    if (matched) (matched[2] === "closed" ? found.closed : found.open).push(matched[2] === "closed" ? matched[1] : `${matched[1]} (${matched[2]})`);
  }
}

function leaderRows(leases) {
  const sorted = [...leases.values()].sort((one, other) => byName(one.metadata.name, other.metadata.name));
  const rows = sorted.map((lease) => {
    const {holderIdentity: holder, renewTime, leaseDurationSeconds: seconds = 15, acquireTime} = lease.spec ?? {};
    const late = serverNow() - millis(renewTime) > (seconds + 2) * 1000;
    const epoch = lease.metadata.annotations?.["fathom.dev/epoch"];
    const word = !holder ? "nobody leads" : late ? `no renewal for ${age(renewTime)}` : "leads";
    return {key: `lease-${lease.metadata.name}`, what: lease.metadata.name, kind: !holder || late ? "bad" : "ok", word,
      detail: holder ? `${holder.split("_")[0]}${epoch ? `, term ${epoch}` : ""}` : "", title: holder ?? "", time: acquireTime};
  });
  return rows.length || leases.state !== "live" ? rows : [{key: "lease", what: "leaders", kind: "bad", word: "nobody leads", detail: "no lease exists"}];
}

function signalRows(signals) {
  const rows = [];
  for (const each of signals.values()) {
    if (each.metadata.name === FIGHTS) continue;
    for (const signal of each.status?.signals ?? []) rows.push({key: `signal-${each.metadata.name}-${signal.name}`, what: each.metadata.name, kind: "warn", word: signal.name, detail: signal.message, time: signal.since});
  }
  return rows;
}

function brakeRow(brakes) {
  if (brakes.state === "refused") return [{key: "brake", what: "brake", kind: "idle", word: "hidden", detail: "you may not read it"}];
  const shown = [...brakes.values()][0];
  if (!shown) return brakes.state === "live" ? [{key: "brake", what: "brake", kind: "idle", word: "not reported", detail: ""}] : [];
  const data = shown.data ?? {}, held = (data.held ?? "").split("\n").filter(Boolean);
  if (data.engaged === "true") return [{key: "brake", what: "brake", kind: "warn", word: "engaged by hand", detail: "no reaction to silent nodes at all"}];
  if (data.holds === "true") return [{key: "brake", what: "brake", kind: "warn", word: `holds ${plural(held.length, "node")}`, detail: (data.zones ?? "").split("\n").join("; "), title: data.held}];
  return [{key: "brake", what: "brake", kind: "ok", word: "released", detail: `at most ${data.share_percent}% of a zone, ${data.evictions_per_minute} nodes a minute`}];
}

function breakerRow({state: read, open, closed, message}) {
  if (read === "reading") return [];
  if (open.length) return [{key: "breakers", what: "breakers", kind: "bad", word: `${open.length} open`, detail: open.join(", ")}];
  if (!closed.length) return [{key: "breakers", what: "breakers", kind: "idle", word: "not known", detail: message}];
  return [{key: "breakers", what: "breakers", kind: "ok", word: "closed", detail: [closed.join(", "), message].filter(Boolean).join("; ")}];
}

function makeRow() {
  const parts = {what: h("span", {class: "control-what"}), state: state("ok", ""), detail: h("span", {class: "control-detail"})};
  const node = h("li", {class: "control-row"}, parts.what, parts.state, parts.detail);
  node.parts = parts;
  return node;
}

function updateRow(node, row) {
  const {parts} = node;
  setText(parts.what, row.what);
  setState(parts.state, row.kind, row.word);
  const text = `${row.detail ?? ""}|${row.time ?? ""}`;
  if (node.dataset.text !== text) {
    node.dataset.text = text;
    replace(parts.detail, row.detail, row.detail && row.time ? " · " : "", row.time ? since(row.time, "for ") : null);
    set(parts.detail, "title", row.title || null);
  }
}
