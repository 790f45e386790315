// The timeline of an object: a drawing that can be zoomed and moved, the same as a list, and the chosen entry.

import {h, replace, setText} from "../dom.js";
import {card, empty, problem} from "../parts.js";
import {draw, highlight, legend, summaryOf} from "./pod_timeline_drawing.js";
import {LANES, fitting, laneOf, moved} from "./pod_timeline_layout.js";
import {entryDetails, numbered, showRows, tickTime} from "./pod_timeline_list.js";
import {redraw} from "./why_parts.js";

const ZOOM_MIN = 0.2, ZOOM_MAX = 12, ZOOM_STEP = 1.35, PAN = 120;
const LISTED = 200;  // The newest: a list of 500 takes long to lay out, and few read so far.
const HELP = "Zoom with + and −, or Ctrl and the wheel; move with ← and →; ↑ and ↓ choose an entry; 0 shows all.";

export function timelineCard() {
  const {section, body, count} = card("Timeline", {className: "timeline"});
  replace(body, h("p", {class: "loading"}, "Asking …"));
  const view = new TimelineView(count);
  return {section,
    update(timeline) { if (body.firstChild !== view.node) replace(body, view.node); view.show(timeline); },
    failed(error) { replace(body, problem(error)); }};
}

class TimelineView {
  #timeline = null;
  #rows = [];
  #zoom = 0;
  #drawn = null;
  #selected = "";
  #text = "";

  constructor(count) {
    this.count = count;
    this.canvas = h("div", {class: "timeline-canvas"});
    this.scroll = h("div", {class: "timeline-scroll", tabindex: "0", role: "group",
      "aria-label": `Drawing of the timeline. ${HELP} The list below says the same.`}, this.canvas);
    this.labels = h("div", {class: "lane-labels", "aria-hidden": "true"},
      LANES.map((lane) => h("div", {class: "lane-label"}, lane.title, h("span", {class: "muted"}))));
    this.list = h("ol", {class: "entries"});
    this.earlier = h("button", {type: "button", class: "quiet earlier", hidden: true, onclick: () => { this.listed = Infinity; this.#showList(); }});
    this.listed = LISTED;
    this.details = h("div", {class: "entry-details", "aria-live": "polite"}, empty("Choose an entry to see what caused it."));
    this.gaps = h("ul", {class: "gaps"});
    const button = (label, text, action) => h("button", {type: "button", class: "quiet", "aria-label": label, title: label, onclick: action}, text);
    this.node = h("div", {class: "timeline-view"},
      h("div", {class: "timeline-tools"}, button("Zoom out", "−", () => this.zoomBy(1 / ZOOM_STEP)),
        button("Zoom in", "+", () => this.zoomBy(ZOOM_STEP)), button("Show all", "all", () => this.fit()), legend()),
      h("div", {class: "timeline-frame"}, this.labels, this.scroll), this.gaps,
      h("div", {class: "timeline-below"}, h("div", {class: "entries-scroll", tabindex: "0", role: "region", "aria-label": "Entries of the timeline"},
        this.earlier, this.list), this.details));
    this.scroll.addEventListener("keydown", (event) => this.#key(event));
    this.scroll.addEventListener("wheel", (event) => this.#wheel(event), {passive: false});
    this.scroll.addEventListener("pointerdown", (event) => this.#drag(event));
  }

  show(timeline) {
    const text = JSON.stringify([timeline.entries, timeline.edges, timeline.gaps]);
    if (text === this.#text) return;
    const atEnd = !this.#timeline || this.scroll.scrollLeft + this.scroll.clientWidth > this.scroll.scrollWidth - 40;
    this.#text = text;
    this.#timeline = {edges: [], gaps: [], entries: [], ...timeline};
    this.#rows = numbered(this.#timeline);
    setText(this.count, summaryOf(this.#timeline));
    LANES.forEach((lane, at) => setText(this.labels.children[at].lastChild, this.#timeline.entries.filter((entry) => laneOf(entry) === at).length));
    redraw(this.gaps, this.#timeline.gaps, (gaps) => gaps.map((gap) => h("li", {}, h("strong", {}, "no data: "), `${gap.source}: ${gap.why}`)));
    if (!this.#zoom) this.#zoom = this.#fitZoom();
    this.#draw();
    if (atEnd) this.scroll.scrollLeft = this.scroll.scrollWidth;
    // In a frame of its own: neither of the two takes long enough to be felt.
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.#showList());
  }

  #showList() {
    const shown = this.#rows.slice(-Math.min(this.listed, this.#rows.length) || undefined);
    this.earlier.hidden = shown.length === this.#rows.length;
    setText(this.earlier, `Show ${this.#rows.length - shown.length} earlier entries`);
    showRows(this.list, shown, {selected: this.#selected, select: (id) => this.select(id)});
  }

  #fitZoom() { return Math.max(0.45, fitting(this.#timeline.entries, (this.scroll.clientWidth || 1000) - 4)); }

  #draw() {
    this.#drawn = draw(this.canvas, this.#timeline, {zoom: this.#zoom, select: (id) => this.select(id), time: tickTime});
    if (this.#selected) highlight(this.#drawn, this.#timeline.edges, this.#selected);
  }

  fit() {
    this.#zoom = Math.max(ZOOM_MIN, fitting(this.#timeline.entries, this.scroll.clientWidth - 4));
    this.#draw();
  }

  // What is at `x` of the window stays there.
  zoomBy(factor, x = this.scroll.clientWidth / 2) {
    const was = this.#drawn.placed, place = this.scroll.scrollLeft + x;
    this.#zoom = Math.max(ZOOM_MIN, Math.min(ZOOM_MAX, this.#zoom * factor));
    this.#draw();
    this.scroll.scrollLeft = moved(was, this.#drawn.placed, place) - x;
  }

  select(id) {
    const row = this.#rows.find((each) => each.entry.id === id);
    if (!row) return;
    this.#selected = id;
    if (row.number <= this.#rows.length - this.listed) this.listed = Infinity;
    highlight(this.#drawn, this.#timeline.edges, id);
    this.#showList();
    replace(this.details, entryDetails(row, this.#timeline, this.#rows, (other) => this.select(other)));
    const x = this.#drawn.placed.xs[row.number - 1], {scrollLeft, clientWidth} = this.scroll;
    if (x < scrollLeft + 30 || x > scrollLeft + clientWidth - 30) this.scroll.scrollLeft = x - clientWidth / 2;
    const line = this.list.querySelector(".chosen"), box = this.list.parentElement;
    if (line) box.scrollTop = Math.max(0, line.offsetTop - box.clientHeight / 3);
  }

  #step(by) {
    const at = this.#rows.findIndex((row) => row.entry.id === this.#selected);
    const next = this.#rows[at < 0 ? (by > 0 ? 0 : this.#rows.length - 1) : Math.max(0, Math.min(this.#rows.length - 1, at + by))];
    if (next) this.select(next.entry.id);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {"+": () => this.zoomBy(ZOOM_STEP), "=": () => this.zoomBy(ZOOM_STEP), "-": () => this.zoomBy(1 / ZOOM_STEP), "0": () => this.fit(),
      ArrowLeft: () => { this.scroll.scrollLeft -= PAN; }, ArrowRight: () => { this.scroll.scrollLeft += PAN; },
      ArrowUp: () => this.#step(-1), ArrowDown: () => this.#step(1), Home: () => { this.scroll.scrollLeft = 0; },
        End: () => { this.scroll.scrollLeft = this.scroll.scrollWidth; }};
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  // The wheel zooms a drawing that is in use; otherwise the page scrolls, as everywhere.
  #wheel(event) {
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY) || !(event.ctrlKey || this.scroll.contains(document.activeElement))) return;
    event.preventDefault();
    this.zoomBy(event.deltaY < 0 ? ZOOM_STEP ** 0.5 : 1 / ZOOM_STEP ** 0.5, event.clientX - this.scroll.getBoundingClientRect().left);
  }

  #drag(event) {
    if (event.button !== 0) return;
    const from = event.clientX, start = this.scroll.scrollLeft;
    const move = (next) => { this.scroll.scrollLeft = start - (next.clientX - from); };
    const end = () => { window.removeEventListener("pointermove", move); window.removeEventListener("pointerup", end); };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
  }
}
