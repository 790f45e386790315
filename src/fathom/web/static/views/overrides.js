import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("Overrides");
  replace(root, h("h1", {}, "Overrides"), h("p", {}, "not built yet"));
  return () => {};
}
