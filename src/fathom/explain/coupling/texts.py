"""A Coupling as text for people, and as a graph in the DOT language."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.explain.coupling.answer import Coupling, CouplingInput, InputWriter
from fathom.explain.coupling.links import TITLES, CouplingLink, Form
from fathom.explain.coupling.observed import ObservedWriter

# These have a line for what is shared, not one for each of the many who share it.
FOLDED: frozenset[Form] = frozenset({"shared-capacity", "shared-queue", "retries-load-api", "timers-align"})
NAMES_SHOWN = 6


def coupling_lines(coupling: Coupling, *, wide: bool = False) -> list[str]:
    lines = [coupling.summary, *_both_sides(coupling, wide=wide)]
    lines += _inputs(coupling.inputs, wide=wide)
    for form, title in TITLES.items():
        links = [link for link in coupling.links if link.form == form]
        if links:
            lines += ["", f"{form}: {title}", *_links(links, wide=wide)]
    lines += _observed(coupling)
    if coupling.fights:
        lines += ["", "fights that go on", *(f"  {fight}" for fight in coupling.fights)]
    lines += [
        f"  cache of {each.kind} in {each.process}: at revision {each.revision}, the newest is {each.latest}"
        for each in coupling.caches
        if each.revision < each.latest
    ]
    lines += [f"no data: {gap.source}: {gap.why}" for gap in coupling.gaps]
    return lines


def _both_sides(coupling: Coupling, *, wide: bool) -> list[str]:
    """Of an object or a field: who can write it, and who decides from it. Of an actor the summary says it."""
    readers = sorted({each.reader for each in coupling.inputs})
    if len(readers) < 2:
        return []
    writers = sorted({writer.actor for each in coupling.inputs for writer in each.writers})
    return [
        f"  can write it: {_names(writers, wide=wide) or 'people alone'}",
        f"  decide from it: {_names(readers, wide=True)}",
    ]


def _inputs(inputs: Iterable[CouplingInput], *, wide: bool) -> list[str]:
    silent = [each for each in inputs if not each.calls and each.source != "commit" and each.writers]
    calling = [each for each in inputs if each.calls and each.writers]
    lines = []
    if silent:
        lines += ["", "inputs that change without a call: seen at the next pass"]
        lines += [_input(each, wide=wide) for each in silent]
    if calling and wide:
        lines += ["", "inputs whose changes make it decide again"]
        lines += [_input(each, wide=wide) for each in calling]
    return lines


def _input(each: CouplingInput, *, wide: bool) -> str:
    fields = ", ".join(each.fields) or "existence"
    asked = "asked for" if each.source == "api" else each.source
    writers = _names((_writer(writer) for writer in each.writers), wide=wide)
    return f"  {each.reader} reads {each.kind} {fields} ({asked}); can be changed by {writers}"


def _writer(writer: InputWriter) -> str:
    does = [word for word, true in (("creates", writer.creates), ("deletes", writer.deletes)) if true]
    return f"{writer.actor} ({', '.join(does)})" if does and not writer.fields else writer.actor


def _links(links: list[CouplingLink], *, wide: bool) -> list[str]:
    if wide or links[0].form not in FOLDED:
        called = {True: "", False: " (not woken by it)"}
        return [f"  {link.text}{called[link.calls or not link.kind]}" for link in links]
    shared: dict[str, list[str]] = {}
    for link in links:
        shared.setdefault(link.through, []).append(link.actor)
    return [f"  {through}: {_names(names, wide=wide)}" for through, names in shared.items()]


def _names(names: Iterable[str], *, wide: bool) -> str:
    names = list(dict.fromkeys(names))
    shown = names if wide else names[:NAMES_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _observed(coupling: Coupling) -> list[str]:
    if not coupling.observed:
        return []
    lines = ["", "observed writers, from the audit log"]
    lines += [_observed_line(each) for each in coupling.observed]
    return [*lines, *(f"  {field}: its writers take turns" for field in coupling.contested)]


def _observed_line(each: ObservedWriter) -> str:
    times = "once" if each.writes == 1 else f"{each.writes} times since {each.first}, last"
    decision = f", decision {each.decision}" if each.decision else ""
    admission = f", set by admission {', '.join(each.admission)}" if each.admission else ""
    unsure = "" if each.certain else " (perhaps: it wrote a field that contains this one)"
    return f"  {each.field}: {each.writer} {times} at {each.last}{decision}{admission}{unsure}"


def dot(coupling: Coupling) -> str:
    """Actors are boxes, kinds are ellipses; dashed edges are inputs that change without a call."""
    edges: dict[str, None] = {}
    for each in coupling.inputs:
        style = "" if each.calls or each.source == "commit" else " [style=dashed]"
        edges[f"  {_quoted(each.kind)} -> {_quoted(each.reader)}{style};"] = None
        for writer in each.writers:
            label = f" [label={_quoted(chr(10).join(writer.fields))}]" if writer.fields else ""
            edges[f"  {_quoted(writer.actor)} -> {_quoted(each.kind)}{label};"] = None
    for link in coupling.links:
        if link.through:
            label = f"{link.form}: {link.through}"
            ends = f"{_quoted(link.actor)} -> {_quoted(coupling.subject)}"
            edges[f"  {ends} [dir=both, color=gray, label={_quoted(label)}];"] = None
    kinds = dict.fromkeys(each.kind for each in coupling.inputs)
    shapes = [f"  {_quoted(kind)} [shape=ellipse];" for kind in kinds]
    head = ["digraph coupling {", f"  label={_quoted(coupling.summary)};", "  node [shape=box];"]
    return "\n".join([*head, *shapes, *edges, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
