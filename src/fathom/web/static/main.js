// The frame of all pages: login, header, banner, keys. Views are in views/.

import {keepKey, logIn, logOut, onSessionEnd, sessionKey, whoAmI} from "./api.js";
import {h, replace, setText} from "./dom.js";
import {follow, keepFollowing} from "./follow.js";
import {installKeys, showHelp} from "./keys.js";
import {showLogin} from "./login.js";
import {tickTimes} from "./parts.js";
import {ROUTES, Router} from "./router.js";
import {scope} from "./scope.js";
import {openSearch} from "./search.js";
import {everySecond} from "./store.js";
import {clock, when} from "./text.js";
import {connection, startWatching, stopWatching} from "./watches.js";

const at = (id) => document.getElementById(id);
const LOGIN = /^#login=([\w-]+)(?:&follow=([a-z0-9./-]+))?$/;

async function start() {
  const [, code, followed] = LOGIN.exec(location.hash) ?? [];
  // Out of the address and the history before anything else: it is a credential, if only once.
  if (code) history.replaceState(null, "", "/ui/#/now");
  try {
    const session = code ? await logIn({code}) : sessionKey() ? await whoAmI() : null;
    keepFollowing(followed);  // Only with a link that logged in: nobody else says where this page goes.
    begin(session);
  } catch (error) {
    begin(null, error.status === 0 || code ? error.message : "");
  }
}

function begin(session, message = "") {
  if (!session) return login(message);
  at("top").hidden = false;
  const router = new Router(at("main"), {session, scope, navigated});
  fillNav();
  fillTools(session);
  onSessionEnd((error) => {
    onSessionEnd(() => {});  // Once: later refusals must not disturb who logs in again.
    keepKey("");
    router.leave();
    login(error.message);
  });
  startWatching();
  router.show();
  follow();
  scope.onChange(() => router.show());
  installKeys({search: () => openSearch(scope), help: showHelp});
  everySecond((now) => { tickTimes(now); showBanner(); });
  connection.listeners.add(showBanner);
}

function login(message) {
  stopWatching();
  at("top").hidden = true;
  replace(at("banner"));
  showLogin(at("main"), message);
}

function fillNav() {
  replace(at("nav"), h("ul", {}, ROUTES.filter((route) => route.nav)
    .map((route) => h("li", {}, h("a", {href: `#/${route.pattern[0]}`, "data-section": route.pattern[0]}, route.nav)))));
}

function navigated(section) {
  for (const link of at("nav").querySelectorAll("a")) {
    if (link.dataset.section === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function fillTools(session) {
  const may = session.allowChanges ? "may change" : "read-only";
  replace(at("tools"),
    h("button", {type: "button", class: "search-button", onclick: () => openSearch(scope)}, h("span", {}, "Search"), h("kbd", {"aria-hidden": "true"}, "/")),
    themeButton(),
    h("details", {class: "menu"},
      h("summary", {}, h("span", {class: "user"}, session.user), h("span", {class: session.allowChanges ? "tag changes" : "tag"}, may)),
      h("div", {class: "menu-body"},
        h("p", {}, `Logged in as ${session.user} until ${when(session.ends)}, or an hour after the page was last open.`),
        h("p", {}, session.allowChanges ? "This session may change what you may change." : "This session is read-only: log in again with changes allowed to act here."),
        h("button", {type: "button", onclick: leave}, "Log out"),
        h("button", {type: "button", class: "quiet", onclick: showHelp}, "Keys ", h("kbd", {"aria-hidden": "true"}, "?")))));
}

// The menu closes like other menus do.
document.addEventListener("click", (event) => { if (!event.target.closest?.(".menu")) closeMenu(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeMenu(); });
function closeMenu() {
  for (const menu of document.querySelectorAll(".menu[open]")) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
}

async function leave() {
  stopWatching();
  try { await logOut(); } catch { /* The session is gone already, or the server is: the key is forgotten. */ }
  location.hash = "#/now";
  location.reload();
}

// The theme: the system's, unless one is chosen.
function themeButton() {
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = h("button", {type: "button", class: "quiet theme-button", onclick: () => {
    const theme = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("fathom-theme", theme);
    label();
  }});
  const label = () => setText(button, dark() ? "Light" : "Dark");
  label();
  return button;
}

// Honest about what is shown: since when it is old, and when the next try is.
let shownBanner = "";
function showBanner() {
  const {lostSince, retryAt, message} = connection;
  const wait = retryAt > Date.now() ? `, trying again in ${clock((retryAt - Date.now()) / 1000)}` : ", trying again now";
  const text = lostSince ? `Connection lost since ${when(lostSince)}: what is shown is as of then${message ? ` (${message})` : ""}` : "";
  document.documentElement.classList.toggle("stale", Boolean(lostSince));
  if (text !== shownBanner) {
    shownBanner = text;
    replace(at("banner"), text ? h("p", {class: "banner"}, h("span", {}, text), h("span", {class: "retry", "aria-hidden": "true"})) : null);
  }
  const retry = at("banner").querySelector(".retry");
  if (retry) setText(retry, wait);
}

// In a module, anchors such as #main would be routes.
at("skip").addEventListener("click", (event) => { event.preventDefault(); at("main").focus(); });
start();
