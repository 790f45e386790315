import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("Coupling");
  replace(root, h("h1", {}, "Coupling"), h("p", {}, "not built yet"));
  return () => {};
}
