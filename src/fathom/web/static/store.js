// Live lists, shared by all views that show the same objects. Updates come in batches, one per animation frame and
// at most ten a second, so that a busy cluster costs no more than a calm one.
//
//   const pods = live("/api/v1/pods");
//   const stop = pods.subscribe(() => render(pods.values()));   // called when it is read, and after each batch
//   pods.state   "reading" | "live" | "refused"                 pods.error   the sentence, where it was refused
//   pods.get("default/web-1"), pods.values()

import {list} from "./api.js";
import {serverNow} from "./text.js";
import {watch} from "./watches.js";

const BATCH_MS = 100;
const KEEP_MS = 20_000;  // Without a view: another view may want it at once.
const RETRY_MS = 3_000;
const UNWATCHED_MS = 10_000;  // Somebody who may list and not watch sees it this often.
const REFUSED_MS = 30_000;  // Rights may be given meanwhile.

const lists = new Map();  // Path -> LiveList

export function live(path) {
  let found = lists.get(path);
  if (!found) lists.set(path, found = new LiveList(path));
  return found;
}

export const keyOf = (object) => `${object.metadata.namespace ?? ""}/${object.metadata.name}`;

class LiveList {
  #items = new Map();
  #views = new Set();
  #stop = null;
  #leaving = 0;
  #retry = 0;
  #reading = false;

  constructor(path) {
    this.path = path;
    this.state = "reading";
    this.error = "";
    this.changes = 0;  // Grows with each event: a cheap "is anything new".
  }

  values() { return this.#items.values(); }
  get(key) { return this.#items.get(key); }
  get size() { return this.#items.size; }

  // `view` is called with the list when there is something to show. Returns what ends it.
  subscribe(view) {
    clearTimeout(this.#leaving);
    this.#views.add(view);
    if (!this.#stop && !this.#reading) this.#read();
    if (this.state !== "reading") view(this);
    return () => {
      this.#views.delete(view);
      if (!this.#views.size) this.#leaving = setTimeout(() => this.#leave(), KEEP_MS);
    };
  }

  #leave() {
    this.#stop?.();
    this.#stop = null;
    clearTimeout(this.#retry);
    lists.delete(this.path);
  }

  async #read() {
    this.#reading = true;
    try {
      const {items, resourceVersion} = await list(this.path);
      this.#items = new Map(items.map((item) => [keyOf(item), item]));
      this.state = "live";
      this.error = "";
      this.#stop = watch(this.path, resourceVersion, {event: (...each) => this.#event(...each), expired: (error) => this.#again(error.status === 410 ? 0 : UNWATCHED_MS)});
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#reading = false;
    }
    this.changes++;
    schedule(this);
  }

  #failed(error) {
    const refused = error.status === 403 || error.status === 404;
    if (refused) {
      this.#items.clear();
      this.state = "refused";
      this.error = error.message;
    }
    if (error.status !== 401) this.#again(refused ? REFUSED_MS : RETRY_MS);
  }

  #again(wait) {
    this.#stop = null;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => { if (this.#views.size) this.#read(); else this.#leave(); }, wait);
  }

  #event(type, object) {
    if (type === "DELETED") this.#items.delete(keyOf(object));
    else this.#items.set(keyOf(object), object);
    this.changes++;
    schedule(this);
  }

  flush() {
    for (const view of this.#views) view(this);
  }
}

// Batches.

const changed = new Set();
let scheduled = false, flushedAt = 0;

function schedule(list) {
  changed.add(list);
  if (scheduled) return;
  scheduled = true;
  const wait = Math.max(0, BATCH_MS - (performance.now() - flushedAt));
  setTimeout(() => (document.hidden ? setTimeout(flush, 1000) : requestAnimationFrame(flush)), wait);
}

function flush() {
  scheduled = false;
  flushedAt = performance.now();
  const batch = [...changed];
  changed.clear();
  for (const list of batch) list.flush();
}

// One function after a batch of any of these lists, not one for each of them.
export function subscribeAll(lists, view) {
  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => { waiting = false; view(); });
  };
  const stops = lists.map((each) => each.subscribe(soon));
  return () => stops.forEach((stop) => stop());
}

// Once a second while the page is visible: ages and countdowns. Returns what ends it.
export function everySecond(tick) {
  const timer = setInterval(() => { if (!document.hidden) tick(serverNow()); }, 1000);
  return () => clearInterval(timer);
}
