// The only way to make elements. Text of the cluster becomes text nodes and whitelisted attributes, never markup.
//
//   h("a", {class: "name", href: "#/pod/ns/web-1", onclick: f}, "web-1")     an element
//   s("path", {d: "M0 0h4"})                                                 an SVG element
//   replace(parent, a, b)         new children                 setText(node, "3 pods")   only if it differs
//   keyed(parent, items, {key, make, update})                  a list whose elements stay the same ones
//   slices(items, work)           many items, in short tasks
//   vars(node, {share: 0.4})      custom properties for CSS (--share); there are no style attributes

import {visible} from "./text.js";

const READ_ALOUD = new Set(["title", "aria-label"]);
const ATTRIBUTES = new Set([
  "id", "class", "type", "for", "role", "title", "name", "value", "placeholder", "tabindex", "colspan", "rowspan",
  "scope", "datetime", "rows", "cols", "autocomplete", "min", "max", "step", "maxlength", "spellcheck", "lang",
  "autocapitalize", "inputmode", "headers", "start", "list", "label", "pattern",
]);
const SWITCHES = new Set(["hidden", "disabled", "checked", "required", "open", "selected", "readonly", "multiple",
  "autofocus", "inert"]);
const SVG_ATTRIBUTES = new Set([
  "viewBox", "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "width", "height", "points",
  "transform", "preserveAspectRatio", "text-anchor", "dominant-baseline", "marker-end", "class", "id", "role",
  "tabindex", "pathLength", "markerWidth", "markerHeight", "refX", "refY", "orient", "dx", "dy",
]);
const SVG = "http://www.w3.org/2000/svg";
const PREFIXED = /^(aria|data)-[a-z0-9-]+$/;
const OWN_LINK = /^(#|\/ui\/)/;  // Nothing of the cluster can make a link that leads elsewhere or runs code.
const SAVED_LINK = /^blob:/;     // A file that the page itself made, to download.

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) set(node, name, value);
  add(node, children);
  return node;
}

export function s(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "href") node.setAttribute("href", checkedLink(String(value)));
    else if (name.startsWith("on") && typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (SVG_ATTRIBUTES.has(name) || PREFIXED.test(name)) node.setAttribute(name, String(value));
    else throw new Error(`attribute ${name} is not allowed`);
  }
  add(node, children);
  return node;
}

export function set(node, name, value) {
  if (name.startsWith("on") && typeof value === "function") {
    node.addEventListener(name.slice(2), value);
  } else if (value === null || value === undefined || value === false) {
    if (SWITCHES.has(name) || ATTRIBUTES.has(name) || PREFIXED.test(name)) node.removeAttribute(name);
  } else if (name === "href" || name === "download") {
    setLink(node, name, String(value));
  } else if (SWITCHES.has(name)) {
    node.setAttribute(name, "");
  } else if (ATTRIBUTES.has(name) || PREFIXED.test(name)) {
    const text = READ_ALOUD.has(name) ? visible(String(value)) : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
    if (name === "value" && "value" in node) node.value = text;
  } else {
    throw new Error(`attribute ${name} is not allowed`);
  }
}

function setLink(node, name, text) {
  node.setAttribute(name, name === "href" ? checkedLink(text) : text);
}

function checkedLink(text) {
  if (!OWN_LINK.test(text) && !SAVED_LINK.test(text)) throw new Error("links lead to pages of fathom only");
  return text;
}

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
}

export function replace(node, ...children) {
  const made = document.createDocumentFragment();
  add(made, children);
  node.replaceChildren(made);
  return node;
}

export function setText(node, text) {
  const wanted = visible(String(text ?? ""));
  if (node.textContent !== wanted) node.textContent = wanted;
  return node;
}

export function vars(node, values) {
  for (const [name, value] of Object.entries(values)) node.style.setProperty(`--${name}`, String(value));
  return node;
}

// The elements of a list, made once for each key and updated: focus, selection and scrolling stay.
export function keyed(parent, items, {key, make, update}) {
  const known = parent.fathomRows ??= new Map();
  const wanted = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const id = key(item);
    if (wanted.has(id)) continue;
    wanted.add(id);
    let node = known.get(id);
    if (!node) known.set(id, node = make(item));
    update?.(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const [id, node] of known) {
    if (!wanted.has(id)) { node.remove(); known.delete(id); }
  }
  return parent;
}

// Work on many items, a few milliseconds at a time, so that no task is long. Returns what stops it.
const SLICE_MS = 12;
export function slices(items, work, done = () => {}) {
  let at = 0, timer = 0;
  const run = () => {
    const until = performance.now() + SLICE_MS;
    while (at < items.length) {
      work(items[at++]);
      if (at < items.length && performance.now() > until) { timer = setTimeout(run, 0); return; }
    }
    done();
  };
  run();
  return () => clearTimeout(timer);
}

// What a screen reader says: only changes that matter. The newest few are kept.
export function announce(text) {
  const log = document.getElementById("said");
  if (!log) return;
  log.append(h("p", {}, text));
  while (log.childElementCount > 5) log.firstElementChild.remove();
}

export const link = (href, ...children) => h("a", {href}, ...children);
