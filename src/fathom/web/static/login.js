// The login form: a token. A one-time link needs no form.

import {logIn} from "./api.js";
import {h, replace, setText} from "./dom.js";
import {command} from "./parts.js";

export function showLogin(root, message) {
  document.title = "Log in · fathom";
  const error = h("p", {class: "problem", role: "alert", id: "login-error", hidden: !message}, message);
  const token = h("input", {id: "token", type: "password", name: "token", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "login-error"});
  const changes = h("input", {id: "changes", type: "checkbox", name: "changes"});
  const form = h("form", {class: "login-form", onsubmit: (event) => { event.preventDefault(); submit(token, changes, error); }},
    h("label", {for: "token"}, "Token"), token,
    h("div", {class: "check"}, changes, h("label", {for: "changes"}, "Allow changes")),
    h("p", {class: "hint"}, "Without this, the page reads and asks only. With it, it may change what you may change."),
    h("button", {type: "submit", class: "primary"}, "Log in"), error);
  replace(root, h("div", {class: "login"},
    h("h1", {}, "Log in to fathom"),
    h("p", {}, "The easiest way is a link: type this where your kubeconfig is, and open what it prints."),
    h("p", {}, command("fathom page")),
    h("h2", {}, "Or with a token"), form));
}

async function submit(token, changes, error) {
  try {
    await logIn({token: token.value, allowChanges: changes.checked});
    location.reload();
  } catch (refused) {
    token.value = "";
    error.hidden = false;
    setText(error, refused.status ? `Not logged in: ${refused.message}` : refused.message);
    token.focus();
  }
}
