import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("New override");
  replace(root, h("h1", {}, "New override"), h("p", {}, "not built yet"));
  return () => {};
}
