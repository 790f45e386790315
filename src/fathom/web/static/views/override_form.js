// The form of an override, made from the server's table of changes: only the changes that the target can have, each
// with its value and what it does.

import {SYSTEM} from "../api.js";
import {h, replace} from "../dom.js";
import {seconds} from "../override_words.js";
import {live, subscribeAll} from "../store.js";

const ZONE = "topology.kubernetes.io/zone", REGION = "topology.kubernetes.io/region", POOL = "fathom.dev/pool", CLASS = "fathom.dev/node-class";
const HINTS = {names: "names, separated by commas", labels: "label=value|value, separated by commas", name: "a name", number: "a number", weights: "name=weight, separated by commas"};
const OPTIONS = {avoidZones: "zone", avoidNodes: "node", avoidNodeClasses: "class", avoidPools: "pool"};
let forms = 0;

export function overrideForm(table, query, context, {changed, submit}) {
  const prefix = `override-${++forms}`, known = places(prefix, context.scope);
  const target = (query.get("target") ?? "").split("/");
  const fields = {
    kind: select(`${prefix}-kind`, table.targets, target[0] || "workload"),
    target: input(`${prefix}-target`, {value: target[1] ?? "", list: `${prefix}-workload`, required: true, placeholder: "web"}),
    namespace: input(`${prefix}-namespace`, {value: query.get("namespace") || context.scope.namespace || "default", required: true}),
    name: input(`${prefix}-name`, {value: query.get("name") ?? "", required: true, placeholder: "web-recovery"}),
    scope: select(`${prefix}-scope`, ["cluster", ...table.scopes], "cluster"),
    place: input(`${prefix}-place`, {placeholder: "eu-west"}),
    reason: h("textarea", {id: `${prefix}-reason`, rows: 2, maxlength: 1024, required: true, placeholder: "what happens, and why this helps"}),
    lasts: input(`${prefix}-lasts`, {value: query.get("for") ?? "45m", required: true}),
    onEnd: select(`${prefix}-on-end`, ["keep", "move"], "keep"),
    minutes: h("input", {id: `${prefix}-minutes`, type: "number", min: 1, max: 60, value: 10}),
    seeds: h("input", {id: `${prefix}-seeds`, type: "number", min: 1, max: 10, value: 3}),
  };
  fields.reason.value = query.get("reason") ?? "";
  const rows = table.changes.map((row) => changeRow(row, `${prefix}-${row.name}`, prefix, (query.get("change") ?? "").split(",").includes(row.name)));
  const trouble = h("div", {class: "form-errors"}), changesBox = h("fieldset", {class: "change-list"}, h("legend", {}, "Changes"), rows.map((row) => row.node));
  const placeRow = row(fields.place, "Which"), endRow = row(fields.onEnd, "Pods that it placed, at its end", "keep: they stay. move: they are evicted, as budgets allow.");
  const longest = h("p", {class: "hint"});
  const node = h("form", {class: "card override-form", id: prefix, "aria-label": "The override", oninput: refresh, onsubmit: (event) => { event.preventDefault(); submit(); }},
    h("div", {class: "form-grid"}, row(fields.kind, "For whom"), row(fields.target, "Its name"), row(fields.namespace, "Namespace"), row(fields.name, "Name of the override"),
      row(fields.scope, "Where"), placeRow), changesBox,
    h("div", {class: "form-grid"}, row(fields.reason, "Why"), h("div", {}, row(fields.lasts, "For how long"), longest), endRow),
    h("details", {class: "preview-size"}, h("summary", {}, "How it is previewed"), h("div", {class: "form-grid"}, row(fields.minutes, "Minutes of virtual time"), row(fields.seeds, "Forks, each with other chances"))), trouble, known.node);

  function refresh() {
    const infra = table.infrastructureTargets.includes(fields.kind.value);
    fields.namespace.readOnly = infra;
    if (infra) fields.namespace.value = SYSTEM;
    fields.target.setAttribute("list", `${prefix}-${infra ? fields.kind.value : "workload"}`);
    fields.place.setAttribute("list", `${prefix}-${fields.scope.value}`);
    placeRow.hidden = fields.scope.value === "cluster";
    for (const each of rows) each.show(each.row.targets.includes(fields.kind.value));
    const chosen = rows.filter((each) => each.chosen());
    endRow.hidden = !chosen.some((each) => each.row.undone === "stays");
    const hours = Math.min(...chosen.map((each) => each.row.hoursMax));
    longest.textContent = chosen.length ? `at most ${hours >= 48 ? `${hours / 24} days` : `${hours}h`} for these changes` : "";
    if (!fields.name.touched && !query.get("name")) fields.name.value = suggested(fields.target.value, chosen);
    changed();
  }
  fields.name.addEventListener("input", () => { fields.name.touched = Boolean(fields.name.value); });

  function read() {
    const errors = [], changes = {};
    for (const each of rows.filter((one) => one.chosen())) {
      const value = parsed(each.row.form, each.value());
      if (value === undefined) errors.push([each.input ?? each.check, `${each.row.name} needs ${HINTS[each.row.form]}`]);
      else changes[each.row.name] = value;
    }
    if (!Object.keys(changes).length) errors.push([rows.find((each) => !each.node.hidden)?.check, "choose at least one change"]);
    if (!(seconds(fields.lasts.value) > 0)) errors.push([fields.lasts, "how long it lasts is a duration such as 30s, 45m or 1h30m"]);
    if (!fields.reason.value.trim()) errors.push([fields.reason, "say why"]);
    const scope = fields.scope.value === "cluster" ? "cluster" : `${fields.scope.value}/${fields.place.value.trim()}`;
    if (scope.endsWith("/")) errors.push([fields.place, `name the ${fields.scope.value}`]);
    const spec = {target: `${fields.kind.value}/${fields.target.value.trim()}`, scope, reason: fields.reason.value.trim(), expiresAfter: fields.lasts.value.trim(),
      ...(endRow.hidden ? {} : {onEnd: fields.onEnd.value}), changes};
    return {object: {metadata: {name: fields.name.value.trim(), namespace: fields.namespace.value.trim()}, spec}, errors};
  }

  function showErrors(errors) {
    for (const each of node.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
    replace(trouble, errors.length ? h("ul", {role: "alert", class: "problem plain-list"}, errors.map(([, text]) => h("li", {}, text))) : null);
    for (const [field] of errors) field?.setAttribute("aria-invalid", "true");
    errors[0]?.[0]?.focus();
  }

  refresh();
  const size = () => ({minutes: Number(fields.minutes.value) || 10, seeds: Number(fields.seeds.value) || 3});
  return {node, read, size, showErrors, stop: known.stop};
}

const suggested = (target, chosen) => (target && chosen.length ? `${target}-${chosen[0].row.name.replace(/[A-Z]/g, (each) => `-${each.toLowerCase()}`)}`.slice(0, 63).replace(/[^a-z0-9-]/g, "") : "");

function changeRow(row, id, prefix, checked) {
  const check = h("input", {type: "checkbox", id, checked, "aria-describedby": `${id}-about`});
  const value = row.form === "flag" ? null : input(`${id}-value`, {placeholder: row.example || HINTS[row.form], "aria-label": `${row.name}: ${HINTS[row.form]}`,
    ...(row.form === "number" ? {inputmode: "numeric"} : {}), ...(OPTIONS[row.name] ? {list: `${prefix}-${OPTIONS[row.name]}`} : {})});
  const risk = row.risk === "high" ? h("span", {class: "tag changes"}, "risky") : null;
  const node = h("div", {class: "change"}, check, h("label", {for: id}, h("code", {}, row.name), " ", risk), value, h("span", {class: "hint", id: `${id}-about`}, row.about));
  if (value) { value.hidden = !checked; check.addEventListener("change", () => { value.hidden = !check.checked; if (check.checked) value.focus(); }); }
  return {row, node, check, input: value, chosen: () => check.checked && !node.hidden, value: () => value?.value.trim() ?? "", show: (can) => { node.hidden = !can; }};
}

// The value of a change, as its form says; undefined where the text is none.
export function parsed(form, text) {
  if (form === "flag") return true;
  if (!text) return undefined;
  const parts = text.split(",").map((each) => each.trim()).filter(Boolean);
  if (form === "names") return parts.length ? parts : undefined;
  if (form === "name") return text;
  if (form === "number") return /^-?\d+$/.test(text) ? Number(text) : undefined;
  const pairs = parts.map((each) => each.split("=").map((one) => one.trim()));
  if (pairs.some((pair) => pair.length !== 2 || !pair[0] || !pair[1])) return undefined;
  if (form === "labels") return Object.fromEntries(pairs.map(([key, values]) => [key, values.split("|")]));
  return pairs.every(([, weight]) => /^\d+$/.test(weight)) ? Object.fromEntries(pairs.map(([key, weight]) => [key, Number(weight)])) : undefined;
}

// Names that exist, as suggestions: of nodes and their labels, and of workloads.
function places(prefix, scope) {
  const lists = {workload: h("datalist", {id: `${prefix}-workload`}), node: h("datalist", {id: `${prefix}-node`}), zone: h("datalist", {id: `${prefix}-zone`}),
    pool: h("datalist", {id: `${prefix}-pool`}), region: h("datalist", {id: `${prefix}-region`}), class: h("datalist", {id: `${prefix}-class`})};
  const nodes = live("/api/v1/nodes"), deployments = live(scope.path("apps/v1", "deployments")), jobs = live(scope.path("batch/v1", "jobs"));
  const stop = subscribeAll([nodes, deployments, jobs], () => {
    const all = [...nodes.values()], label = (key) => all.map((node) => node.metadata.labels?.[key]);
    options(lists.node, all.map((node) => node.metadata.name));
    for (const [list, key] of [["zone", ZONE], ["region", REGION], ["pool", POOL], ["class", CLASS]]) options(lists[list], label(key));
    options(lists.workload, [...deployments.values(), ...jobs.values()].map((each) => each.metadata.name));
  });
  return {node: h("div", {class: "form-names"}, Object.values(lists)), stop};
}

const options = (list, names) => replace(list, [...new Set(names.filter(Boolean))].sort().slice(0, 200).map((each) => h("option", {value: each})));

const input = (id, props) => h("input", {id, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", ...props});
const select = (id, values, chosen) => h("select", {id}, values.map((each) => h("option", {value: each, selected: each === chosen}, each)));
const row = (field, label, hint = "") => h("p", {class: "field"}, h("label", {for: field.id}, label), field, hint ? h("span", {class: "hint"}, hint) : null);
