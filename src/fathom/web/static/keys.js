// Keys: j and k walk through whatever a view marks with data-row, / searches, ? explains.

import {h} from "./dom.js";
import {dialog} from "./parts.js";

const KEYS = [
  ["j, k", "next and previous row"], ["Enter", "open the row"], ["/", "search a workload, pod or node"],
  ["g n", "Now"], ["g c", "Coupling"], ["g o", "Overrides"], ["g r", "Runbooks"], ["g e", "Record"], ["+ − 0", "zoom a timeline that has the focus; arrows move and choose"], ["?", "this help"], ["Esc", "close"],
];
const PAGES = {n: "now", c: "coupling", o: "overrides", r: "runbooks", e: "record"};
const GO_MS = 1000;

export function showHelp() {
  dialog("Keys", "help", h("dl", {class: "keys"}, KEYS.map(([key, what]) => [h("dt", {}, key.split(" ").map((each) => h("kbd", {}, each))), h("dd", {}, what)])));
}

export function installKeys({search, help}) {
  let goSince = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const going = event.timeStamp - goSince < GO_MS;
    goSince = 0;
    if (going && PAGES[event.key]) location.hash = `#/${PAGES[event.key]}`;
    else if (event.key === "g") goSince = event.timeStamp;
    else if (event.key === "/") search();
    else if (event.key === "?") help();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else return;
    event.preventDefault();
  });
}

const isTyping = (target) => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

// A row is focused by its first link or button, or itself.
function step(by) {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.offsetParent !== null);
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by))];
  const target = row.matches("a, button") ? row : row.querySelector("a, button, summary") ?? row;
  target.focus();
  row.scrollIntoView({block: "nearest"});
}
