// One override: what it changes, for whom, where, why, who asked, until when, who honours it, and at its end the proof.

import {collection} from "../api.js";
import {announce, h, replace, setText} from "../dom.js";
import {ackCounts, authorText, changesOf, expiryOf, lapsesAt, stateOf} from "../overrides.js";
import {decide, end, extend} from "../override_actions.js";
import {approvalText, changeText, concerns, endLines, holdsProof, overrideTable, proofOf, rowOf, untilText, waitsForApproval, where} from "../override_words.js";
import {card, command, empty, listTrouble, problem, setState, since, state, until} from "../parts.js";
import {guarded} from "../rights.js";
import {everySecond, live, subscribeAll} from "../store.js";
import {millis, plural, serverNow} from "../text.js";
import {reviews} from "./override_reviews.js";

export function mountOne(root, wanted, context) {
  context.title(`Override ${wanted.name}`);
  const selector = `?fieldSelector=${encodeURIComponent(`metadata.name=${wanted.name}`)}`;
  const list = live(`${collection("fathom.dev/v1alpha1", "scheduleroverrides", wanted.namespace)}${selector}`);
  const body = h("div", {class: "stack"}), head = pageHead(wanted);
  let shown = null, last = null, table = null, over = false, stopReviews = () => {};
  replace(root, h("p", {class: "crumb"}, h("a", {href: "#/overrides"}, "Overrides")), head.node, body);

  function render() {
    const trouble = listTrouble(list);
    if (trouble) return replace(body, trouble);
    if (!table) return replace(body, h("p", {class: "loading"}, "Reading …"));
    const found = [...list.values()].find((each) => each.metadata.name === wanted.name);
    if (!found) return last ? gone() : replace(body, empty(`There is no override ${wanted.name}: it may have ended, with nothing left of it.`));
    head.update(found);
    if (last !== found) sayChange(last, found);
    last = found;
    if (shown?.uid !== found.metadata.uid) build(found);
    return shown.update(found);
  }

  function build(found) {
    stopReviews();
    const reviewing = reviews(context, found.metadata.uid);
    stopReviews = reviewing.stop;
    shown = parts(context, table, found);
    shown.uid = found.metadata.uid;
    replace(body, shown.proof.section, shown.actions, shown.columns, reviewing.section);
  }

  // Its finalizer held it until the proof: that it is gone is the proof.
  function gone() {
    const proven = holdsProof(last);
    head.gone();
    replace(body, h("section", {class: "card proof", "aria-label": "The proof"}, h("div", {class: "card-body"},
      state(proven ? "ok" : "idle", proven ? "Over, and nothing is left" : "Over"),
      h("p", {}, proven ? `${last.metadata.name} has ended, and it is proven that nothing is left of it: fathom's finalizer held it until every effect was gone.`
        : `${last.metadata.name} has ended; what is left of it was not checked, because it had no finalizer.`))));
    if (!over) announce(`${last.metadata.name} has ended${proven ? ", and nothing is left of it" : ""}`);
    over = true;
  }

  overrideTable().then((found) => { table = found; render(); }, (error) => replace(body, problem(error)));
  const stops = [subscribeAll([list], render), everySecond(() => { if (last && !over && table) render(); })];
  return () => { stops.forEach((stop) => stop()); stopReviews(); };
}

function sayChange(before, after) {
  if (before && stateOf(before)[1] !== stateOf(after)[1]) announce(`${after.metadata.name}: ${stateOf(after)[1]}`);
}

function pageHead(wanted) {
  const mark = state("busy", "reading"), ends = h("span", {class: "lead"});
  let shown = "";
  return {
    node: h("div", {class: "page-head"}, h("h1", {}, wanted.name), mark, ends),
    update(override) {
      const now = serverNow(), waits = waitsForApproval(override), time = waits ? lapsesAt(override) : expiryOf(override);
      const counting = time && millis(time) > now && !override.metadata.deletionTimestamp;
      setState(mark, ...stateOf(override, now));
      if (shown !== (counting ? time : "-")) replace(ends, counting ? until(time, waits ? "lapses in " : "ends in ") : null);
      shown = counting ? time : "-";
    },
    gone() { setState(mark, "idle", "Ended"); replace(ends); },
  };
}

function parts(context, table, first) {
  const what = card("What it changes"), who = card("Who honours it"), facts = card("The request"), atEnd = card("At its end");
  const proof = card("The proof", {className: "proof"}), conditions = card("Conditions");
  const buttons = actions(context, table, first);
  const set = (node, key, ...children) => { if (node.shown !== key) { node.shown = key; replace(node, ...children); } };
  const update = (override) => {
    const text = JSON.stringify([override.spec, override.status, override.metadata.deletionTimestamp]);
    set(what.body, text, changeRows(override, table));
    set(who.body, text, ackTable(override));
    setText(who.count, override.metadata.deletionTimestamp ? "" : `${ackCounts(override).honoring} of ${ackCounts(override).total}`);
    set(facts.body, `${text}${millis(expiryOf(override)) <= serverNow()}`, factList(override, table));
    set(atEnd.body, text, h("ul", {class: "plain-list"}, endLines(override, table).map((line) => h("li", {}, line))),
      h("p", {class: "hint"}, "In a terminal:"), command(`fathom override end ${override.metadata.name} -n ${override.metadata.namespace}`));
    set(conditions.body, text, conditionRows(override));
    const proven = proofRows(override);
    proof.section.hidden = !proven;
    set(proof.body, text, proven);
    buttons.update(override);
  };
  const columns = h("div", {class: "columns"}, h("div", {class: "stack"}, facts.section, atEnd.section), h("div", {class: "stack"}, what.section, who.section, conditions.section));
  return {columns, actions: buttons.node, proof, update};
}

function actions({session}, table, first) {
  const {namespace, name} = first.metadata, of = {resource: "scheduleroverrides", namespace, name};
  let current = first;
  const approval = [{...of, verb: "patch", subresource: "approval"}];
  const approve = guarded(session, "Approve", approval, () => decide(current, true), "primary");
  const refuse = guarded(session, "Refuse", approval, () => decide(current, false), "danger");
  const verbs = [...new Set(changesOf(first).map((change) => rowOf(table, change)?.verb).filter(Boolean))];
  const longer = guarded(session, "Extend", [{...of, verb: "patch"}, ...verbs.map((verb) => ({...of, verb}))], () => extend(current));
  const ending = guarded(session, "End it now", [{...of, verb: "delete"}], () => end(current, table), "danger");
  const update = (override) => {
    current = override;
    const waits = waitsForApproval(override), own = [override.status?.author, ...(override.status?.approval?.requestedBy ?? [])].includes(session.user);
    const ended = override.metadata.deletionTimestamp ? "it is ending" : millis(expiryOf(override)) <= serverNow() ? "it has ended" : "";
    approve.node.hidden = refuse.node.hidden = !waits;
    approve.refuse(own ? "somebody else approves what you wrote" : ended);
    refuse.refuse(own ? "somebody else decides about what you wrote" : ended);
    longer.refuse(ended || (override.spec.changes.breakGlassRole ? "break-glass is not extended" : ""));
    ending.refuse(override.metadata.deletionTimestamp ? "it is ending" : "");
  };
  return {node: h("div", {class: "actions card-actions", role: "group", "aria-label": "What you can do"}, approve.node, refuse.node, longer.node, ending.node), update};
}

function changeRows(override, table) {
  const states = new Map((override.status?.changes ?? []).map((each) => [each.name, each]));
  const marks = {InForce: ["ok", "in force"], NoMatch: ["warn", "matches nothing"], Declined: ["bad", "declined"]};
  return h("ul", {class: "rows"}, changesOf(override).map((name) => {
    const found = states.get(name), why = [found?.reason, found?.message].filter(Boolean).join(": ");
    return h("li", {class: "change-row"}, h("p", {}, h("code", {}, changeText(name, override.spec.changes[name])), " ", found ? state(...(marks[found.state] ?? ["idle", found.state])) : state("busy", "not yet reported")),
      h("p", {class: "hint"}, rowOf(table, name)?.about ?? "", why ? [" ", h("code", {}, why)] : ""));
  }));
}

function ackTable(override) {
  if (override.metadata.deletionTimestamp) return empty("It is ending: nobody honours it any more.");
  const generation = override.metadata.generation ?? 0, {missing} = ackCounts(override);
  const rows = (override.status?.acknowledgements ?? []).map((each) => {
    const old = (each.observedGeneration ?? 0) < generation;
    const mark = each.state === "Declined" ? ["bad", "declined"] : old ? ["busy", `an earlier generation (${each.observedGeneration})`] : ["ok", "honours it"];
    return h("tr", {}, h("th", {scope: "row"}, each.controller), h("td", {}, state(...mark), each.reason ? ` ${each.reason}` : ""),
      h("td", {}, each.cacheRevision ? `cache at revision ${each.cacheRevision}` : "in the commit of each write"), h("td", {}, since(each.time, "", " ago")));
  });
  const known = new Set((override.status?.acknowledgements ?? []).map((each) => each.controller));
  const waiting = missing.filter((each) => !known.has(each)).map((each) => h("tr", {}, h("th", {scope: "row"}, each), h("td", {colspan: 3}, state("busy", `has not acknowledged generation ${generation}`))));
  return h("div", {class: "scroll"}, h("table", {class: "plain"}, h("thead", {}, h("tr", {}, ["Controller", "Says", "From", "When"].map((each) => h("th", {scope: "col"}, each)))), h("tbody", {}, rows, waiting)));
}

function factList(override, table) {
  const {metadata, spec, status = {}} = override;
  const rows = [["for", `${spec.target} in namespace ${metadata.namespace}`], ["where", where(spec.scope)], ["why", spec.reason],
    ["asked by", h("span", {}, authorText(override), ", ", since(metadata.creationTimestamp, "", " ago"), status.authorImpersonatedBy ? `, through ${status.authorImpersonatedBy}` : "")],
    ["until", untilText(override)], ["concerns", concerns(status)], ["approval", approvalText(override, table)]];
  return h("dl", {class: "facts"}, rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

function conditionRows(override) {
  const all = override.status?.conditions ?? [];
  if (!all.length) return empty("None yet.");
  return h("dl", {class: "facts"}, all.flatMap((each) => [h("dt", {}, each.type), h("dd", {}, `${each.status}${each.reason ? ` (${each.reason})` : ""}${each.message ? `: ${each.message}` : ""}`)]));
}

// After the end: what is left of it, or that nothing is. null before.
function proofRows(override) {
  const residue = override.status?.residue ?? [], proof = proofOf(override), ending = Boolean(override.metadata.deletionTimestamp);
  if (residue.length) {
    return [state("bad", `${plural(residue.length, "effect")} left behind`), h("p", {}, "It stays until they are gone:"),
      h("ul", {class: "rows"}, residue.map((each) => h("li", {}, h("strong", {}, each.effect), ` ${each.object ?? ""}`, each.message ? h("p", {class: "hint"}, each.message) : null)))];
  }
  if (proof?.status === "True") return [state("ok", "Nothing is left"), h("p", {}, "The override controller has looked for every effect of it by its UID, after its end, and found none.", proof.message ? ` ${proof.message}` : "")];
  if (ending || proof) return [state("busy", "Looking for what is left"), h("p", {}, proof?.message || "The override controller looks for its effects, and undoes what can be undone.")];
  return null;
}
