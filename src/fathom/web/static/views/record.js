import {h, replace} from "../dom.js";

export function mount(root, params, context) {
  context.title("Record");
  replace(root, h("h1", {}, "Record"), h("p", {}, "not built yet"));
  return () => {};
}
