// A new override: a form, a preview of exactly what it says, then it is created from that preview or not at all.

import {ApiError, OWN, ask, get, send} from "../api.js";
import {confirmAction} from "../confirmation.js";
import {announce, h, replace, setText} from "../dom.js";
import {approvalText, concerns, overrideTable, untilText} from "../override_words.js";
import {card, problem} from "../parts.js";
import {guarded} from "../rights.js";
import {duration} from "../text.js";
import {overrideForm} from "./override_form.js";
import {futures} from "./override_futures.js";

export function mount(root, params, context) {
  context.title("New override");
  const place = h("div", {class: "new-override"});
  replace(root, h("p", {class: "crumb"}, h("a", {href: "#/overrides"}, "Overrides")), h("div", {class: "page-head"}, h("h1", {}, "New override"),
    h("p", {class: "lead"}, "Say what, for whom, where, why and for how long. See both futures. Then create it from exactly that preview.")), place);
  let stop = () => {};
  overrideTable().then((table) => { if (place.isConnected) stop = fill(place, table, params, context); }, (error) => replace(place, problem(error)));
  return () => stop();
}

function fill(place, table, params, context) {
  const result = card("The two futures", {className: "futures"});
  let previewed = null, asking = null, timer = 0;
  const form = overrideForm(table, params.query, context, {changed, submit: preview});
  const button = h("button", {type: "submit", class: "primary"}, "Preview");
  const stop = h("button", {type: "button", onclick: () => asking?.abort()}, "Stop");
  const progress = h("p", {class: "progress", role: "status"});
  stop.hidden = true;
  form.node.append(h("div", {class: "actions"}, button, stop, progress));
  replace(place, form.node, result.section);
  result.section.hidden = true;

  // A preview is of one object: another edit makes it another override.
  function changed() {
    if (!previewed) return;
    const same = JSON.stringify(form.read().object) === previewed.text;
    previewed.note.hidden = same;
    previewed.create?.refuse(same ? "" : "the form has changed since the preview: preview it again");
  }

  async function preview() {
    const {object, errors} = form.read();
    form.showErrors(errors);
    if (errors.length) return;
    asking?.abort();
    asking = new AbortController();
    begin();
    try {
      const spec = {override: object, ...form.size()};
      show(object, await ask("overridepreviews", spec, object.metadata.namespace, {signal: asking.signal}));
    } catch (error) {
      if (error.name === "AbortError") setText(progress, "stopped: nothing was written");
      else { setText(progress, ""); result.section.hidden = false; replace(result.body, problem(error)); }
    }
    finish();
  }

  function begin() {
    const began = performance.now();
    previewed = null;
    result.section.hidden = true;
    button.disabled = true;
    stop.hidden = false;
    place.classList.add("busy");
    const tick = () => setText(progress, `forking the cluster and running both futures: ${duration((performance.now() - began) / 1000)} of at most 50s. Nothing is written.`);
    tick();
    timer = setInterval(tick, 1000);
  }

  function finish() {
    clearInterval(timer);
    button.disabled = false;
    stop.hidden = true;
    asking = null;
    place.classList.remove("busy");
  }

  function show(object, answer) {
    setText(progress, "");
    result.section.hidden = false;
    const note = h("p", {class: "changed-note", role: "status"}, "The form has changed since this preview.");
    note.hidden = true;
    previewed = {text: JSON.stringify(object), object, answer, note, create: null};
    replace(result.body, note, futures(object, answer), answer.refused ? null : creation(object, answer));
    announce(answer.refused ? "The API server would refuse this override" : "The preview is ready");
    const heading = result.section.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus();
  }

  function creation(object, answer) {
    const of = {resource: "scheduleroverrides", namespace: object.metadata.namespace};
    const verbs = new Set(Object.keys(object.spec.changes).map((name) => table.changes.find((each) => each.name === name)?.verb));
    const create = guarded(context.session, "Create it from this preview", [{...of, verb: "create"}, ...[...verbs].map((verb) => ({...of, verb}))],
      () => createFrom(object, answer, table, context), "primary");
    previewed.create = create;
    return h("div", {class: "actions"}, create.node, h("p", {class: "hint"}, `Preview ${answer.token}: of the cluster at revision ${answer.revision}. It is refused if anything that it rests on has moved since.`));
  }

  return () => { asking?.abort(); clearInterval(timer); form.stop(); };
}

// 1. What the preview rests on has not moved. 2. The server's dry run says what it concerns. 3. A person agrees.
async function createFrom(object, answer, table, context) {
  const {namespace} = object.metadata, overrides = `${OWN}/namespaces/${encodeURIComponent(namespace)}/scheduleroverrides`;
  const says = h("div", {}, h("p", {class: "loading"}, "Asking the server …"));
  const body = {apiVersion: "fathom.dev/v1alpha1", kind: "SchedulerOverride", ...object};
  const box = confirmAction({
    title: `Create ${object.metadata.name}?`,
    says: [says],
    verb: "Create it",
    act: async () => {
      await checkHolds(namespace, answer);
      const created = await send("POST", overrides, body);
      announce(`${created.metadata.name} was created`);
      context.go(`#/overrides/${encodeURIComponent(namespace)}/${encodeURIComponent(created.metadata.name)}`);
    },
  });
  const submit = box.querySelector("button[type=submit]");
  submit.disabled = true;
  try {
    await checkHolds(namespace, answer);
    const tried = await send("POST", `${overrides}?dryRun=All`, body);
    const facts = [["concerns", concerns(tried.status)], ["approval", approvalText(tried, table)], ["until", untilText(tried)]];
    replace(says, h("p", {}, "Nothing that the preview rests on has moved. The server's dry run says:"),
      h("dl", {class: "facts"}, facts.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)])));
    submit.disabled = false;
    submit.focus();
  } catch (error) {
    replace(says, problem(error));
  }
}

async function checkHolds(namespace, {token, hash}) {
  let status;
  try {
    ({status} = await get(`${OWN}/namespaces/${encodeURIComponent(namespace)}/overridepreviews/${encodeURIComponent(token)}`));
  } catch (error) {
    if (error.status === 404) throw new ApiError(404, "NotFound", "the API server does not have this preview any more: preview it again");
    throw error;
  }
  if (status.hash !== hash) throw new ApiError(409, "Conflict", "the preview is of another override: preview this one");
  const moved = (status.moved ?? []).map((each) => `${each.kind} ${each.namespace ? `${each.namespace}/` : ""}${each.name}: ${each.message}`);
  if (moved.length) throw new ApiError(409, "Conflict", `the preview no longer holds: ${moved.join("; ")}. Preview it again`);
}
