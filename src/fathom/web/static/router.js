// Addresses of pages: #/now, #/pod/NS/NAME, … Each view is a module that is loaded when it is first shown:
//
//   export function mount(root, params, context) { …; return () => unmount; }
//
// root: an empty element. params: the parts of the address in order, decoded (query: a URLSearchParams). context:
// {session, scope, title(text), go(hash)}. A view has one h1, and calls context.title().

import {h, replace} from "./dom.js";

export const ROUTES = [
  {pattern: ["now"], module: "./views/now.js", nav: "Now"},
  {pattern: ["workload", "*", "*", "*"], module: "./views/workload.js"},
  {pattern: ["pod", "*", "*"], module: "./views/pod.js"},
  {pattern: ["decision", "*"], module: "./views/decision.js"},
  {pattern: ["coupling"], module: "./views/coupling.js", nav: "Coupling"},
  {pattern: ["overrides", "new"], module: "./views/override_new.js"},
  {pattern: ["overrides", "*"], module: "./views/overrides.js"},
  {pattern: ["overrides", "*", "*"], module: "./views/overrides.js"},
  {pattern: ["overrides"], module: "./views/overrides.js", nav: "Overrides"},
  {pattern: ["runbooks", "*", "*"], module: "./views/runbooks.js"},
  {pattern: ["runbooks"], module: "./views/runbooks.js", nav: "Runbooks"},
  {pattern: ["record"], module: "./views/record.js", nav: "Record"},
];

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  let parts;
  try { parts = path.split("/").filter(Boolean).map(decodeURIComponent); } catch { return null; }
  if (!parts.length) parts = ["now"];
  const route = ROUTES.find(({pattern}) => pattern.length === parts.length
    && pattern.every((part, at) => part === "*" || part === parts[at]));
  if (!route) return null;
  const params = parts.filter((_, at) => route.pattern[at] === "*");
  params.query = new URLSearchParams(query);
  return {route, params, section: parts[0]};
}

export class Router {
  #root;
  #context;
  #unmount = null;
  #turn = 0;

  constructor(root, context) {
    this.#root = root;
    this.#context = {...context, title: (text) => { document.title = text ? `${text} · fathom` : "fathom"; },
      go: (hash) => { location.hash = hash; }};
    this.show = this.show.bind(this);
    window.addEventListener("hashchange", () => this.show(true));
  }

  async show(moved = false) {
    const turn = ++this.#turn, found = parse(location.hash);
    let view;
    try {
      view = found ? await import(found.route.module) : null;
    } catch (error) {
      view = failing(error);
    }
    if (turn !== this.#turn) return;  // Another address was chosen meanwhile.
    this.leave();
    const root = h("div", {class: "view"});
    replace(this.#root, root);
    this.#context.navigated?.(found?.section ?? "");
    if (view) this.#mount(view, root, found);
    else nowhere(root, this.#context);
    if (moved) this.#focus(root);
  }

  #mount(view, root, found) {
    try {
      this.#unmount = view.mount(root, found?.params ?? [], this.#context) ?? null;
    } catch (error) {
      failing(error).mount(root);
    }
  }

  leave() {
    const unmount = this.#unmount;
    this.#unmount = null;
    unmount?.();
  }

  // The heading is focused, so that a screen reader says where we are.
  #focus(root) {
    window.scrollTo(0, 0);
    const heading = root.querySelector("h1");
    if (!heading) return;
    heading.tabIndex = -1;
    heading.focus({preventScroll: true});
  }
}

function nowhere(root, context) {
  context.title("No such page");
  replace(root, h("h1", {}, "No such page"), h("p", {}, "The address names no page of fathom. ", h("a", {href: "#/now"}, "What is stuck now"), "."));
}

const failing = (error) => ({mount(root) {
  console.error(error);
  replace(root, h("h1", {}, "This page could not be shown"),
    h("p", {}, `Load the page again; if that does not help, this is a fault of fathom: ${error.message}`));
}});
