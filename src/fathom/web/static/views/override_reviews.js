// Uses of break-glass that somebody other than their author has to look at.

import {OWN} from "../api.js";
import {confirmAction} from "../confirmation.js";
import {announce, h, keyed, replace, setText} from "../dom.js";
import {card, listTrouble, setState, state} from "../parts.js";
import {guarded} from "../rights.js";
import {live} from "../store.js";
import {when} from "../text.js";
import {patchSameSpec} from "../override_actions.js";

const MARKS = {Open: ["warn", "Open"], Disputed: ["bad", "Disputed"], Closed: ["ok", "Closed"]};

export function reviews(context, of = null) {
  const {section, body, count} = card("Break-glass: reviews");
  const list = live(context.scope.path("fathom.dev/v1alpha1", "overridereviews")), rows = h("ul", {class: "rows"});

  function render() {
    const all = [...list.values()].filter((each) => !of || each.spec?.override?.uid === of).filter((each) => of || each.status?.phase !== "Closed");
    section.hidden = list.state !== "live" ? list.state === "refused" : !all.length;
    const trouble = listTrouble(list);
    if (trouble) return replace(body, trouble);
    setText(count, all.length ? `${all.filter((each) => each.status?.phase !== "Closed").length} open` : "");
    if (body.firstChild !== rows) replace(body, rows);
    return keyed(rows, all, {key: (each) => each.metadata.uid, make: (each) => makeRow(each, context.session), update: updateRow});
  }

  section.hidden = true;
  return {section, stop: list.subscribe(render)};
}

function makeRow(review, session) {
  const {namespace, name} = review.metadata, {spec = {}} = review;
  const parts = {state: state("warn", ""), outcome: h("p", {class: "hint"})};
  const rights = [{verb: "patch", resource: "overridereviews", subresource: "approval", namespace, name}];
  const close = guarded(session, "In order: close it", rights, () => decide(row.review, true));
  const dispute = guarded(session, "Not in order", rights, () => decide(row.review, false), "danger");
  const row = h("li", {class: "review-row", "data-row": "review"},
    h("p", {}, parts.state, " ", h("strong", {}, spec.author), " had ClusterRole ", h("code", {}, spec.role), ` in ${namespace}, ${when(spec.startsAt)} to ${when(spec.endsAt)}`),
    h("p", {}, "Why: ", spec.reason), parts.outcome, h("div", {class: "actions"}, close.node, dispute.node));
  Object.assign(row, {parts, close, dispute, user: session.user});
  return row;
}

function updateRow(row, review) {
  row.review = review;
  const {status = {}, spec = {}} = review;
  setState(row.parts.state, ...(MARKS[status.phase] ?? MARKS.Open));
  setText(row.parts.outcome, status.approver ? `${status.approver}, ${when(status.approvedAt)}${status.findings ? `: ${status.findings}` : ""}` : "Nobody has reviewed it.");
  const why = spec.author === row.user ? "somebody else reviews what you did" : "";
  row.close.refuse(status.phase === "Closed" ? "it is closed" : why);
  row.dispute.refuse(status.phase === "Closed" ? "it is closed" : why);
}

function decide(review, approved) {
  const {namespace, name} = review.metadata;
  confirmAction({
    title: approved ? `Close ${name}?` : `Dispute ${name}?`,
    says: [h("p", {}, approved ? "You say that the use of break-glass was in order. That can be said after the override has ended." : "You say that it was not in order: the review stays open, with what you found.")],
    fields: [{name: "findings", label: "What you found", required: !approved, long: true}],
    verb: approved ? "Close the review" : "Dispute it",
    danger: !approved,
    act: async ({findings}) => {
      const path = `${OWN}/namespaces/${encodeURIComponent(namespace)}/overridereviews/${encodeURIComponent(name)}`;
      await patchSameSpec(review, {status: {approved, ...(findings ? {findings} : {})}}, {path, subresource: "approval"});
      announce(`The review ${name} was ${approved ? "closed" : "disputed"}`);
    },
  });
}
