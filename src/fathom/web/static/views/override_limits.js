// The SteeringLimits in force: how much overrides may concern, and whether risky ones need a second person.

import {SYSTEM} from "../api.js";
import {h, replace} from "../dom.js";
import {card} from "../parts.js";
import {live} from "../store.js";

const WORDS = {
  maxPods: "pods at most", maxNodes: "nodes cordoned or drained at most", maxZonePercent: "percent of a zone's nodes at most",
  maxTenants: "tenants at most", maxBelowMinimum: "workloads below their minimum at most", maxExtensions: "extensions at most",
  maxTotalDuration: "in all, with extensions", approvals: "approval of risky changes by a second person",
  reservedReplicasWithoutApproval: "pods on reserved capacity without approval",
};

export function limits() {
  const {section, body} = card("Limits", {intro: "SteeringLimits fathom-system/default: for each override alone, and for all of the same effect together."});
  const list = live(`/apis/fathom.dev/v1alpha1/namespaces/${SYSTEM}/steeringlimits?fieldSelector=metadata.name%3Ddefault`);
  const stop = list.subscribe(() => {
    const spec = list.get(`${SYSTEM}/default`)?.spec;
    section.hidden = list.state === "refused" || !spec;
    if (spec) replace(body, h("ul", {class: "limit-list"}, Object.entries(spec).filter(([key]) => WORDS[key])
      .map(([key, value]) => h("li", {}, h("strong", {}, String(value)), " ", WORDS[key]))));
  });
  section.hidden = true;
  return {section, stop};
}
