import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("Pod");
  replace(root, h("h1", {}, "Pod"), h("p", {}, "not built yet"));
  return () => {};
}
