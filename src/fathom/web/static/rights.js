// What this user may do: asked of the API server (SelfSubjectAccessReview), so that it is the same RBAC as everywhere.
//
//   const {allowed, reason} = await may(session, {verb: "delete", resource: "scheduleroverrides", namespace, name})
//   … or {verb: "post", path: "/ui/record/exports"} for what is no resource
//   guarded(session, "End it", [rights, …], onclick)    -> {node, button, refuse(reason)}: a button, disabled with its
//                                                          reason beside it until it is known that it may be used
//
// The server judges every request again: a button is a courtesy, not a guard.

import {send} from "./api.js";
import {h, setText} from "./dom.js";

const REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const KEPT_MS = 20_000;  // Rights may be given meanwhile.
const READ_ONLY = "this session is read-only: log in again with changes allowed";
const known = new Map();  // Rights, as JSON -> {at, answer}

export function may(session, rights) {
  if (!session.allowChanges) return Promise.resolve({allowed: false, reason: READ_ONLY});
  const asked = rights.path ? rights : {group: "fathom.dev", ...rights}, key = JSON.stringify(asked);
  const kept = known.get(key);
  if (kept && performance.now() - kept.at < KEPT_MS) return kept.answer;
  const answer = review(asked);
  known.set(key, {at: performance.now(), answer});
  answer.catch(() => known.delete(key));
  return answer;
}

async function review(attributes) {
  const body = {apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: {[attributes.path ? "nonResourceAttributes" : "resourceAttributes"]: attributes}};
  const {status = {}} = await send("POST", REVIEWS, body);
  return {allowed: Boolean(status.allowed), reason: status.allowed ? "" : `you may not ${words(attributes)}`};
}

function words({verb, path, resource, subresource, namespace}) {
  if (path) return `${verb} ${path} (a nonResourceURL of a ClusterRole)`;
  return `${verb} ${resource}${subresource ? `/${subresource}` : ""}${namespace ? ` in namespace ${namespace}` : ""}`;
}

// The first refusal of several rights; {allowed: true} if there is none.
export async function mayAll(session, all) {
  const answers = await Promise.all(all.map((each) => may(session, each)));
  return answers.find((each) => !each.allowed) ?? {allowed: true, reason: ""};
}

let buttons = 0;

export function guarded(session, label, all, onclick, className = "") {
  const id = `why-not-${++buttons}`;
  const why = h("span", {class: "why-not", id}), button = h("button", {type: "button", class: className, disabled: true, "aria-describedby": id, onclick}, label);
  let refused = "";
  const show = ({allowed, reason}) => {
    button.disabled = !allowed || Boolean(refused);
    setText(why, allowed ? refused : reason);
  };
  let answer = {allowed: false, reason: ""};
  mayAll(session, all).then((found) => { answer = found; show(answer); },
    (error) => { answer = {allowed: false, reason: `whether you may is not known: ${error.message}`}; show(answer); });
  return {node: h("span", {class: "guarded"}, button, why), button, refuse(reason) { refused = reason; show(answer); }};
}
