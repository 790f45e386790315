// The log of a container, as it is written. Only the newest lines are kept, and long lines are cut.

import {ApiError, fetchWithKey, refusal} from "../api.js";
import {h, replace, setText} from "../dom.js";
import {card, state} from "../parts.js";
import {plural} from "../text.js";

const TAIL = 200;
const LINES_MAX = 1_000;
const LINE_MAX = 4_000;     // Characters of a line; a program may write megabytes without a line end.
const NEAR_END_PX = 24;
const RETRY_MS = 3_000;

export function logCard(podPath) {
  const {section, body, count} = card("Log", {className: "log"});
  const view = new LogView(podPath, count);
  replace(body, view.node);
  return {section, update: (pod) => view.update(pod), stop: () => view.stop()};
}

class LogView {
  #controller = null;
  #pending = [];
  #frame = 0;
  #asked = "";
  #lines = 0;

  constructor(podPath, count) {
    Object.assign(this, {podPath, count});
    this.container = h("select", {id: "log-container", onchange: () => this.#restart()});
    this.follow = h("input", {type: "checkbox", id: "log-follow", checked: true, onchange: () => this.#restart()});
    this.previous = h("input", {type: "checkbox", id: "log-previous", onchange: () => this.#restart()});
    this.note = h("div", {class: "log-note", role: "status"});
    this.text = h("div", {class: "log-text mono", tabindex: "0", role: "region", "aria-label": "Lines of the log"});
    this.node = h("div", {class: "log-view"},
      h("div", {class: "log-tools"}, h("label", {for: "log-container"}, "Container "), this.container,
        h("label", {}, this.follow, " follow"), h("label", {}, this.previous, " before its last restart"), this.note), this.text);
  }

  // Called with every change of the pod: a container that starts anew has a new log.
  update(pod) {
    this.#choices(pod);
    const chosen = this.container.value;
    const status = [...(pod.status?.containerStatuses ?? []), ...(pod.status?.initContainerStatuses ?? [])].find((each) => each.name === chosen);
    this.previous.disabled = !status?.lastState?.terminated;
    const asked = [pod.metadata.uid, chosen, status?.containerID ?? "", status?.restartCount ?? 0, pod.spec?.nodeName ?? ""].join();
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#restart();
  }

  #choices(pod) {
    const names = [...(pod.spec?.containers ?? []), ...(pod.spec?.initContainers ?? [])].map((each) => each.name);
    if ([...this.container.options].map((each) => each.value).join() === names.join()) return;
    const chosen = this.container.value;
    replace(this.container, names.map((each) => h("option", {value: each}, each)));
    if (names.includes(chosen)) this.container.value = chosen;
  }

  async #restart() {
    this.#controller?.abort();
    clearTimeout(this.retry);
    const mine = this.#controller = new AbortController(), follow = this.follow.checked;
    this.#pending = [];
    this.#lines = 0;
    const query = new URLSearchParams({container: this.container.value, tailLines: String(TAIL), ...(follow ? {follow: "true"} : {}),
      ...(this.previous.checked && !this.previous.disabled ? {previous: "true"} : {})});
    try {
      const response = await fetchWithKey(`${this.podPath}/log?${query}`, {signal: mine.signal});
      if (!response.ok) throw await refusal(response);
      replace(this.text);
      replace(this.note, follow ? state("ok", "live") : state("idle", "as of now"));
      await this.#read(response.body.getReader(), mine);
      if (mine === this.#controller) replace(this.note, state("idle", follow ? "the log has ended" : "as of now"));
    } catch (error) {
      if (error.name === "AbortError" || mine !== this.#controller) return;
      if (!(error instanceof ApiError)) return this.#lost();
      replace(this.text);
      this.#counted();
      replace(this.note, state("idle", error.message));
    }
  }

  // What was read stays, and the log is asked for again.
  #lost() {
    replace(this.note, state("warn", "the connection was lost, trying again"));
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.#restart(), RETRY_MS);
  }

  async #read(reader, mine) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const {done, value} = await reader.read();
      if (mine !== this.#controller) return reader.cancel();
      if (done) break;
      const lines = (rest + decoder.decode(value, {stream: true})).split("\n");
      rest = lines.pop();
      if (rest.length > LINE_MAX) { lines.push(rest); rest = ""; }
      this.#add(lines);
    }
    return this.#add(rest ? [rest] : []);
  }

  // Drawn once per frame, at most as many lines as are kept.
  #add(lines) {
    if (!lines.length) return;
    this.#pending.push(...lines.slice(-LINES_MAX));
    if (this.#pending.length > 2 * LINES_MAX) this.#pending.splice(0, this.#pending.length - LINES_MAX);
    this.#frame ||= requestAnimationFrame(() => this.#flush());
  }

  #flush() {
    this.#frame = 0;
    const {text} = this, lines = this.#pending.splice(0).slice(-LINES_MAX);
    const atEnd = text.scrollTop + text.clientHeight > text.scrollHeight - NEAR_END_PX;
    const made = document.createDocumentFragment();
    for (const line of lines) made.append(h("div", {class: "log-line"}, shown(line)));
    text.append(made);
    while (text.childElementCount > LINES_MAX) text.firstElementChild.remove();
    this.#lines += lines.length;
    this.#counted();
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  #counted() {
    setText(this.count, this.#lines > LINES_MAX ? `the newest ${LINES_MAX.toLocaleString("en")} lines` : this.#lines ? plural(this.#lines, "line") : "");
  }

  stop() {
    this.#controller?.abort();
    this.#controller = null;
    clearTimeout(this.retry);
    cancelAnimationFrame(this.#frame);
  }
}

const shown = (line) => (line.length > LINE_MAX ? `${line.slice(0, LINE_MAX)} … and ${line.length - LINE_MAX} more characters` : line) || "\u00a0";
