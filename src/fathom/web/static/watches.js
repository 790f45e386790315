// All watches of this page in one stream: a browser has six connections to a server, over all its tabs.
//
//   const stop = watch(path, resourceVersion, {event(type, object), expired()})
//
// The stream is opened anew, each watch from where it was, when the set of watches changes, when it breaks (with
// backoff), and when the page is looked at again: a hidden page lets go of it after a minute.

import {ApiError, fetchWithKey, refusal} from "./api.js";

const QUIET_MS = 35_000;   // The server says something every ten seconds.
const GATHER_MS = 30;      // Views ask for several watches in a row.
const HIDDEN_MS = 60_000;
const BACKOFF_MS = [250, 500, 1_000, 2_000, 5_000, 10_000];
const SHORT_MS = 1_000;
const SOON_MS = 150;       // A break that heals at once is not worth a banner.

const watches = new Map();  // Id -> {path, revision, handler}
let nextId = 1, stream = null, gathering = 0, failures = 0, retry = 0, hiding = 0, stopped = false;

// What the banner shows: since when there is no connection (0: there is one), and when it is tried again.
export const connection = {lostSince: 0, retryAt: 0, message: "", listeners: new Set()};

function tell(change) {
  Object.assign(connection, change);
  for (const listener of connection.listeners) listener(connection);
}

export function watch(path, revision, handler) {
  const id = `w${nextId++}`;
  watches.set(id, {path, revision, handler});
  reopenSoon();
  return () => {
    // What it still sends is ignored: no reason to open the stream anew.
    watches.delete(id);
    if (!watches.size) close();
  };
}

export function stopWatching() {
  stopped = true;
  close();
}

export function startWatching() {
  stopped = false;
  failures = 0;
  reopenSoon();
}

function close() {
  stream?.abort();
  stream = null;
  clearTimeout(retry);
}

function reopenSoon() {
  clearTimeout(gathering);
  gathering = setTimeout(open, GATHER_MS);
}

async function open() {
  close();
  if (!watches.size || stopped || document.hidden && hiding === -1) return;
  const mine = stream = new AbortController(), began = Date.now();
  try {
    await read(mine);
    if (stream !== mine) return;
    // Watches end now and then, and go on from where they were. One that ends at once is a failure.
    if (Date.now() - began < SHORT_MS) failed(new Error("the stream ended"));
    else reopenSoon();
  } catch (error) {
    if (stream === mine && !stopped) failed(error);
  }
}

function failed(error) {
  stream = null;
  if (error instanceof ApiError && error.status === 401) return;
  const wait = BACKOFF_MS[Math.min(failures++, BACKOFF_MS.length - 1)] * (0.75 + Math.random() / 2);
  const since = connection.lostSince || Date.now();
  const message = error instanceof ApiError && error.status ? error.message : "";
  const show = () => tell({lostSince: since, retryAt: Date.now() + wait, message});
  if (failures > 1) show();
  else setTimeout(() => { if (failures) tell({lostSince: since, message}); }, SOON_MS + wait);
  retry = setTimeout(open, wait);
}

async function read(mine) {
  const asked = Object.fromEntries([...watches].map(([id, each]) => [id, address(each)]));
  const quiet = quietTimer(mine);
  const response = await fetchWithKey("/ui/watch", {
    method: "POST", signal: mine.signal, headers: {"Content-Type": "application/json"},
    body: JSON.stringify({watches: asked}),
  });
  if (!response.ok) { quiet.stop(); throw await refusal(response); }
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      quiet.heard();
      connected();
      const lines = (rest + decoder.decode(value, {stream: true})).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line) received(line);
    }
  } finally {
    quiet.stop();
  }
}

const address = ({path, revision}) => `${path}${path.includes("?") ? "&" : "?"}resourceVersion=${encodeURIComponent(revision)}`;

function connected() {
  failures = 0;
  if (connection.lostSince) tell({lostSince: 0, retryAt: 0, message: ""});
}

function quietTimer(mine) {
  let timer = 0;
  const heard = () => { clearTimeout(timer); timer = setTimeout(() => mine.abort(new Error("silence")), QUIET_MS); };
  heard();
  return {heard, stop: () => clearTimeout(timer)};
}

function received(line) {
  const tab = line.indexOf("\t");
  const each = watches.get(line.slice(0, tab));
  if (!each) return;
  const {type, object} = JSON.parse(line.slice(tab + 1));
  if (type === "ERROR") return refused(line.slice(0, tab), each, object);
  if (type === "END") return reopenSoon();
  each.revision = object.metadata?.resourceVersion ?? each.revision;
  if (type !== "BOOKMARK") each.handler.event(type, object);
}

// A revision that is too old, or a permission that is gone: whoever watches lists again.
function refused(id, each, status) {
  watches.delete(id);
  each.handler.expired(new ApiError(status.code ?? 0, status.reason ?? "", status.message ?? "the watch was refused"));
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) {
    hiding = setTimeout(() => { hiding = -1; close(); }, HIDDEN_MS);
  } else if (hiding === -1 || !stream) {
    hiding = 0;
    failures = 0;
    reopenSoon();
  }
});
window.addEventListener("online", () => { failures = 0; reopenSoon(); });
