import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("Runbooks");
  replace(root, h("h1", {}, "Runbooks"), h("p", {}, "not built yet"));
  return () => {};
}
