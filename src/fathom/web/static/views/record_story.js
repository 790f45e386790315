// The story of a simulated run: which invariant broke, what happened before it and because of what, which faults there
// were, and the command that runs it again.

import {announce, h, replace} from "../dom.js";
import {card, command, problem, state, tag} from "../parts.js";
import {FILE_BYTES_MAX, parseStory} from "../story.js";
import {memory, plural} from "../text.js";

export function storyCard() {
  const {section, body} = card("A simulated run, as a story", {className: "story", intro: "Choose a file of fathom sim run or explore. It is read here in the browser, and sent nowhere."});
  const out = h("div", {class: "story-out"}), input = h("input", {id: "story-file", type: "file", onchange: () => { if (input.files[0]) open(input.files[0], out); }});
  replace(body, h("p", {class: "field"}, h("label", {for: "story-file"}, "File of the run"), input), h("p", {class: "hint"}, "A run that fails leaves one in .fathom-failures/."), out);
  section.addEventListener("dragover", (event) => event.preventDefault());
  section.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0], out); });
  return {section};
}

async function open(file, out) {
  try {
    if (file.size > FILE_BYTES_MAX) throw new Error(`${file.name} has ${memory(file.size)}: a recorded run has at most ${memory(FILE_BYTES_MAX)}`);
    const story = parseStory(await file.text(), file.name);
    replace(out, tell(story));
    announce(story.violation ? `${story.scenario}: broken` : `${story.scenario}: everything holds`);
  } catch (error) { replace(out, problem(error)); }
}

function tell(story) {
  return [head(story), story.causes.length && story.violation ? causes(story.causes) : null, timeline(story.lines), faults(story), h("h3", {}, "Run it again"),
    h("p", {}, command(story.commands.replay)), h("p", {class: "hint"}, "Reduced to the necessary faults:"), command(story.commands.shrink),
    story.commands.rerun ? [h("p", {class: "hint"}, "From its seed, if the faults are the seed's own:"), command(story.commands.rerun)] : null, facts(story)];
}

function head(story) {
  const {violation} = story;
  return h("div", {class: `verdict ${violation ? "bad" : "ok"}`}, h("p", {}, state(violation ? "bad" : "ok", violation ? `Broken at ${violation.at}` : "Everything holds"), " ", h("strong", {}, story.scenario), ` seed ${story.seed}`),
    violation ? [h("p", {class: "invariant"}, violation.invariant), h("pre", {}, violation.message), violation.objects.length ? h("p", {class: "hint"}, "about ", violation.objects.map((each) => [tag(each), " "])) : null] : null);
}

const causes = (all) => h("div", {}, h("h3", {}, "Possible causes"), h("ul", {class: "plain-list"}, all.map((each) => h("li", {}, state("warn", each.culprit), " ", toLine(each.number), ` ${each.who} ${each.what}`))));

function toLine(number) {
  return h("button", {type: "button", class: "line-link", "aria-label": `line ${number}`, onclick: () => {
    const row = document.getElementById(`story-line-${number}`);
    row?.scrollIntoView({block: "center"});
    row?.focus({preventScroll: true});
  }}, String(number));
}

function timeline(lines) {
  return h("div", {}, h("h3", {}, "What happened"), h("ol", {class: "story-lines"}, lines.map((each) => h("li", {id: `story-line-${each.number}`, tabindex: -1, class: each.who === "BROKEN" ? "broken" : each.fault ? "fault" : each.culprit ? "culprit" : ""},
    h("span", {class: "line-number"}, String(each.number)), h("span", {class: "line-time mono"}, each.at), h("span", {class: "line-who"}, each.fault ? "fault: " : "", each.who),
    h("span", {class: "line-what"}, each.what, each.count > 1 ? ` (${each.count} times)` : "", each.culprit ? [" ", tag(each.culprit)] : null,
      each.because.length ? h("span", {class: "hint"}, " because of ", each.because.map((one) => [toLine(one), " "])) : null,
      each.probably.length ? h("span", {class: "hint"}, " probably because of ", each.probably.map((one) => [toLine(one), " "])) : null,
      each.details.map((one) => h("span", {class: "hint line-detail"}, one)))))));
}

function faults({faults: all, fired}) {
  if (!all.length) return h("p", {class: "hint"}, "No faults were planned.");
  return h("div", {}, h("h3", {}, plural(all.length, "planned fault")), h("ul", {class: "plain-list"}, all.map((each) => h("li", {}, h("span", {class: "mono"}, each.at), " ", h("strong", {}, each.kind), ` ${each.text}`))),
    h("p", {class: "hint"}, fired.length ? `Fired: ${fired.map(([site, times]) => `${site}${times > 1 ? ` ×${times}` : ""}`).join("; ")}` : "None of them took effect."));
}

const facts = (story) => h("dl", {class: "facts story-facts"}, [["strategy", story.strategy], ["inputs", story.inputs.toLocaleString("en")], ["trace", story.trace], ["processes", story.processes.join(", ")], ["invariants", `${story.checkers.length} were on`],
  ["recorded with", `fathom ${story.versions.fathom ?? "?"}, Python ${story.versions.python ?? "?"}`], ...(story.patch ? [["patch", story.patch]] : [])].flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, String(value))]));
