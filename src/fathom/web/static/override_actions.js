// What a person does with an override: approve or refuse, extend, end. Each is written at the revision that was read
// and for the spec that was shown: what its author has edited meanwhile is not approved by accident.

import {ApiError, OWN, get, send} from "./api.js";
import {confirmAction} from "./confirmation.js";
import {announce, h} from "./dom.js";
import {authorText, changesOf, expiryOf} from "./overrides.js";
import {endLines, seconds, waitsForApproval, where, changeText} from "./override_words.js";
import {duration, millis, serverNow} from "./text.js";

const ATTEMPTS = 5;

export const pathOf = ({namespace, name}, subresource = "") =>
  `${OWN}/namespaces/${encodeURIComponent(namespace)}/scheduleroverrides/${encodeURIComponent(name)}${subresource ? `/${subresource}` : ""}`;

// Controllers write the status meanwhile: a conflict is tried again, but only for the same spec.
export async function patchSameSpec(object, patch, {path, subresource = ""}) {
  let current = object;
  for (let attempt = 1; ; attempt++) {
    try {
      const {uid, resourceVersion} = current.metadata;
      return await send("PATCH", `${path}${subresource ? `/${subresource}` : ""}`, {...patch, metadata: {uid, resourceVersion}});
    } catch (error) {
      if (error.status !== 409 || attempt >= ATTEMPTS) throw error;
    }
    current = await get(path);
    if (current.metadata.uid !== object.metadata.uid || JSON.stringify(current.spec) !== JSON.stringify(object.spec)) {
      throw new ApiError(409, "Conflict", "it was changed meanwhile: close this, look at it again, and decide then");
    }
  }
}

const summary = (override) => h("dl", {class: "facts"},
  ...[["target", override.spec.target], ["namespace", override.metadata.namespace], ["where", where(override.spec.scope)],
    ["changes", changesOf(override).map((name) => changeText(name, override.spec.changes[name])).join("; ")],
    ["reason", override.spec.reason], ["author", authorText(override)]].flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]));

export function decide(override, approved) {
  const {approval} = override.status, {name, namespace} = override.metadata;
  confirmAction({
    title: `${approved ? "Approve" : "Refuse"} ${name}?`,
    says: [summary(override), h("p", {}, approved
      ? `From then on it is in force, and ends ${override.spec.expiresAfter} later. The approval is of exactly this spec (${(approval.specHash ?? "").slice(0, 12)}): a later edit voids it.`
      : "It will not be in force. Its author sees who refused it.")],
    verb: approved ? "Approve it" : "Refuse it",
    danger: !approved,
    act: async () => {
      const hash = approval.specHash ? {specHash: approval.specHash} : {};
      await patchSameSpec(override, {status: {approval: {approved, ...hash}}}, {path: pathOf({namespace, name}), subresource: "approval"});
      announce(`${name} was ${approved ? "approved" : "refused"}`);
    },
  });
}

export function extend(override) {
  const {name, namespace} = override.metadata, ends = millis(expiryOf(override));
  confirmAction({
    title: `Extend ${name}?`,
    says: [h("p", {}, "The new time counts from now. Every affected controller acknowledges it again, and the server counts the extension against the SteeringLimits.")],
    fields: [
      {name: "lasts", label: "How long, from now", value: override.spec.expiresAfter, placeholder: "45m", required: true},
      {name: "reason", label: "Why longer: another reason than before", required: true, placeholder: override.spec.reason},
    ],
    verb: "Extend it",
    act: async ({lasts, reason}) => {
      const long = seconds(lasts);
      if (!(long > 0)) throw new ApiError(422, "Invalid", `${lasts} is no duration: write 30s, 45m or 1h30m`);
      if (!waitsForApproval(override) && serverNow() + long * 1000 < ends) {
        throw new ApiError(422, "Invalid", `that would end it earlier: it still lasts ${duration((ends - serverNow()) / 1000)}. Give a longer time, or end it`);
      }
      const patch = {spec: {expiresAfter: otherSpelling(lasts, override.spec.expiresAfter), reason}};
      await patchSameSpec(override, patch, {path: pathOf({namespace, name})});
      announce(`${name} was extended`);
    },
  });
}

// The same duration as before starts the clock again only if it is written in another way: 45m, then 2700s.
export function otherSpelling(lasts, before) {
  if (lasts !== before) return lasts;
  const text = `${Math.round(seconds(lasts))}s`;
  return text === before ? `${Math.round(seconds(lasts) * 1000)}ms` : text;
}

export function end(override, table) {
  const {name, namespace, uid} = override.metadata;
  confirmAction({
    title: `End ${name} now?`,
    says: [summary(override), h("p", {}, "At its end:"), h("ul", {class: "plain-list"}, endLines(override, table).map((line) => h("li", {}, line))),
      h("p", {}, "It stays here until it is proven that nothing of it is left; what is left is named.")],
    verb: "End it",
    danger: true,
    act: async () => {
      await send("DELETE", pathOf({namespace, name}), {kind: "DeleteOptions", apiVersion: "v1", preconditions: {uid}});
      announce(`${name} is ending`);
    },
  });
}
