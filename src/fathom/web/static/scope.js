// The namespace that lists are limited to; "" is the whole cluster. Somebody with rights in one namespace only may
// not list the others.

import {collection} from "./api.js";

const KEPT = "fathom-namespace";
const listeners = new Set();

export const scope = {
  get namespace() { return localStorage.getItem(KEPT) ?? ""; },
  set namespace(name) {
    if (name) localStorage.setItem(KEPT, name); else localStorage.removeItem(KEPT);
    for (const listener of listeners) listener(name);
  },
  // The address of a namespaced collection in this scope: scope.path("v1", "pods").
  path(groupVersion, plural) { return collection(groupVersion, plural, this.namespace); },
  onChange(listener) { listeners.add(listener); return () => listeners.delete(listener); },
};
