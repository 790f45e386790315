// A dialog that says what will happen before it does, and shows a refusal where it was asked for.
//
//   confirmAction({title: "End web-recovery?", says: [h("p", …)], verb: "End it", danger: true, act: async (fields) => …})

import {h, replace} from "./dom.js";
import {dialog, problem} from "./parts.js";

// `fields`: [{name, label, value, placeholder, required, hint}]; `act` gets their values by name.
export function confirmAction({title, says = [], fields = [], verb, danger = false, act}) {
  const trouble = h("div", {class: "confirm-trouble"}), inputs = {};
  const rows = fields.map((field) => fieldRow(field, inputs));
  const submit = h("button", {type: "submit", class: danger ? "danger" : "primary"}, verb);
  const form = h("form", {class: "confirm", onsubmit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    replace(trouble);
    try {
      await act(Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()])));
      box.close();
    } catch (error) {
      submit.disabled = false;
      replace(trouble, problem(refusal(error)));
    }
  }}, h("div", {class: "confirm-says"}, says), rows, trouble,
  h("div", {class: "confirm-end"}, submit, h("button", {type: "button", onclick: () => box.close()}, "Leave it as it is")));
  const box = dialog(title, "confirm-box", form);
  (Object.values(inputs)[0] ?? submit).focus();
  return box;
}

const refusal = (error) => (error.status === 403 ? {message: `The API server refuses: ${error.message}`} : error);

let ids = 0;

function fieldRow({name, label, value = "", placeholder = "", required = false, hint = "", long = false}, inputs) {
  const id = `field-${++ids}`;
  const input = long ? h("textarea", {id, rows: 3, placeholder, required}) : h("input", {id, type: "text", placeholder, required, autocomplete: "off", spellcheck: "false"});
  input.value = value;
  inputs[name] = input;
  return h("p", {class: "field"}, h("label", {for: id}, label), input, hint ? h("span", {class: "hint"}, hint) : null);
}
