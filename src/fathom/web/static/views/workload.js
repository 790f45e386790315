import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("Workload");
  replace(root, h("h1", {}, "Workload"), h("p", {}, "not built yet"));
  return () => {};
}
