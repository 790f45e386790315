// Follows a story that is told elsewhere: `fathom demo risk-api --page` writes into a ConfigMap which page shows the
// step that it is at, and this page goes there.
//
//   data.page   the part of an address after '#', such as #/now; anything else is ignored
//   data.text   what the step is about, shown above the page

import {h, replace} from "./dom.js";
import {live} from "./store.js";

const KEPT = "fathom-follow";  // Of this tab: a page that is loaded anew goes on.
const PLACE = /^([a-z0-9-]+)\/([a-z0-9.-]+)$/;

export function keepFollowing(place) {
  if (place) sessionStorage.setItem(KEPT, place);
}

export function follow() {
  const [, namespace, name] = PLACE.exec(sessionStorage.getItem(KEPT) ?? "") ?? [];
  if (!name) return;
  const maps = live(`/api/v1/namespaces/${namespace}/configmaps`), bar = document.getElementById("story");
  let shown = "";
  const stop = maps.subscribe(() => {
    const told = maps.get(`${namespace}/${name}`), version = told?.metadata.resourceVersion ?? "";
    if (version === shown) return;
    shown = version;
    const {page = "", text = ""} = told?.data ?? {};
    replace(bar, text ? h("p", {class: "story"}, h("span", {}, text), h("button", {type: "button", class: "quiet", onclick: leave}, "Stop following")) : null);
    if (page.startsWith("#/")) location.hash = page;
  });
  function leave() {
    sessionStorage.removeItem(KEPT);
    stop();
    replace(bar);
  }
}
