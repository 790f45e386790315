// A question that is asked again when one of the lists changes, and anyway after a while. A large cluster is asked less
// often: the next question waits several times as long as the last answer took.
//
//   const asked = asking({question: (signal) => ask(…, {signal}), show, failed, lists: [pods]});
//   asked.again();   asked.stop();
//
// `factor`: how many times as long as the last answer took, at least, until the next question; `longestMs` ends that wait.

import {subscribeAll} from "./store.js";

const GAP_MS = 700;
const GAP_FACTOR = 4;
const LONGEST_MS = 30_000;
const ANYWAY_MS = 15_000;
// No answer for the moment: what was answered before stays, and a banner says if the connection is lost.
const PASSING = new Set([0, 429, 503, 504]);

export function asking({question, show, failed, lists = [], anywayMs = ANYWAY_MS, gapMs = GAP_MS, factor = GAP_FACTOR, longestMs = LONGEST_MS}) {
  let controller = null, answered = false, timer = 0, changed = false, over = false, notBefore = 0;

  async function turn() {
    if (document.hidden) return later(gapMs);
    controller = new AbortController();
    const began = performance.now();
    try {
      const answer = await question(controller.signal);
      answered = true;
      if (!over) show(answer);
    } catch (error) {
      changed ||= PASSING.has(error.status);
      if (error.name !== "AbortError" && !over && !(answered && PASSING.has(error.status))) failed(error);
    }
    controller = null;
    return later(Math.min(longestMs, Math.max(gapMs, factor * (performance.now() - began))));
  }

  function later(gap) {
    notBefore = performance.now() + gap;
    const wait = changed || document.hidden ? gap : anywayMs;
    changed = false;
    clearTimeout(timer);
    if (!over) timer = setTimeout(turn, wait);
  }

  function again() {
    if (controller) { changed = true; return; }
    clearTimeout(timer);
    if (!over) timer = setTimeout(turn, Math.max(0, notBefore - performance.now()));
  }

  const stop = subscribeAll(lists, again);
  turn();
  return {again, stop() { over = true; clearTimeout(timer); controller?.abort(); stop(); }};
}
