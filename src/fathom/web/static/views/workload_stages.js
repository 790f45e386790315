// How far the replicas have come, stage by stage: those of the newest generation, and those of the one before.

import {h, replace, vars} from "../dom.js";
import {card, empty, listTrouble, since, state, tag, until} from "../parts.js";
import {plural} from "../text.js";
import {redraw} from "./why_parts.js";

// A replica counts in every stage that it has reached.
const STAGES = [
  ["admitted", "its pod exists"], ["queued", "it has no scheduling gates: it waits for a node, or has one"], ["scheduled", "a node was chosen"],
  ["bound", "its pod has the node"], ["starting", "the agent of the node has begun to start it"], ["ready", "its pod is Ready"],
  ["serving", "its Service sends it traffic, or no Service selects it"],
];

export function stages() {
  const {section, body, count} = card("Stages", {className: "stages"});
  replace(body, empty("Nobody has counted its replicas yet."));
  return {section, update(progress, list) {
    if (!progress) return redraw(body, [list.state, list.error], () => listTrouble(list) ?? empty("Nobody has counted its replicas yet."));
    const {current = {}, previous} = progress.status ?? {};
    count.textContent = `${current.serving ?? 0} of ${current.desired ?? 0} serving`;
    return redraw(body, [current, previous], () => [table(current, previous), waiting(current), facts(current)]);
  }};
}

function table(current, previous) {
  return h("div", {class: "scroll"}, h("table", {class: "stage-table"},
    h("caption", {class: "visually-hidden"}, "Replicas that have reached each stage, by generation"),
    h("thead", {}, h("tr", {}, h("td", {}), STAGES.map(([stage, about]) => h("th", {scope: "col", title: about}, stage)))),
    h("tbody", {}, line("new", current), previous && anyLeft(previous) ? line("old", previous) : null)));
}

const anyLeft = (previous) => STAGES.some(([stage]) => previous[stage]);

function line(which, progress) {
  const wanted = which === "old" ? Math.max(progress.admitted ?? 0, progress.desired ?? 0) : progress.desired ?? 0;
  let before = which === "old" ? progress.admitted ?? 0 : wanted;
  const cells = STAGES.map(([stage]) => {
    const reached = progress[stage] ?? 0, missing = Math.max(0, before - reached);
    before = reached;
    return cell(reached, wanted, missing);
  });
  const words = which === "old" ? plural(progress.admitted ?? 0, "replica") : `${wanted} wanted`;
  return h("tr", {class: `stage-line ${which}`}, h("th", {scope: "row"}, h("span", {class: "stage-which"}, which),
    h("span", {class: "hint"}, `generation ${progress.generation ?? 0}`), h("span", {class: "hint"}, words)), cells);
}

// The solid part has arrived, the hatched part has not; the words say both.
function cell(reached, wanted, missing) {
  const bar = h("span", {class: "stage-bar", "aria-hidden": "true"}, h("span", {class: "stage-fill"}));
  vars(bar, {share: wanted ? Math.min(1, reached / wanted).toFixed(3) : 0});
  return h("td", {class: missing ? "stage-cell stops" : "stage-cell"}, h("span", {class: "stage-count"}, reached), bar,
    h("span", {class: "stage-note"}, missing ? `${missing} not yet` : ""));
}

function waiting({pendingReasons = [], stuckAt, deadline}) {
  if (!pendingReasons.length && !stuckAt) return null;
  return h("ul", {class: "waiting"},
    stuckAt ? h("li", {}, state("bad", "stuck"), " at ", tag(stuckAt)) : deadline
      ? h("li", {}, state("busy", "on its way"), " ", until(deadline, "counts as stuck in ")) : null,
    pendingReasons.map((each) => h("li", {}, h("strong", {class: "number"}, each.count ? `${each.count} × ` : ""), tag(each.reason), " ",
      each.message ?? "", each.since ? since(each.since, " since ", " ago") : null)));
}

function facts({lastAction, lastError}) {
  const rows = [];
  if (lastAction?.action) rows.push(h("dt", {}, "last action"), h("dd", {}, `${lastAction.controller}: ${lastAction.action}, `,
    since(lastAction.time, "", " ago")));
  if (lastError?.reason) rows.push(h("dt", {}, "last error"), h("dd", {},
    `${lastError.controller}: ${lastError.reason}: ${lastError.message ?? ""}, `, since(lastError.time, "", " ago")));
  return rows.length ? h("dl", {class: "facts small"}, rows) : null;
}
