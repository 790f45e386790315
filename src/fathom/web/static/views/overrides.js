// Overrides: all of them, or one of them. Address: #/overrides, #/overrides/NAMESPACE/NAME (or NAME alone).

import {mountList} from "./override_list.js";
import {mountOne} from "./override_one.js";

export function mount(root, params, context) {
  if (!params.length) return mountList(root, context);
  const [namespace, name] = params.length === 2 ? params : ["", params[0]];
  return mountOne(root, {namespace, name}, context);
}
