import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("Decision");
  replace(root, h("h1", {}, "Decision"), h("p", {}, "not built yet"));
  return () => {};
}
