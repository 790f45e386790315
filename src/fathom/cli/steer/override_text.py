"""An override as lines for people: in a list, in full, and before it is created. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fathom.cli.problem import Problem
from fathom.cli.tables import by_name
from fathom.kinds.override_changes import (
    BREAK_GLASS,
    BY_ACTION,
    BY_ITSELF,
    CHANGES,
    EVERYWHERE,
    HIGH,
    STAYS,
)
from fathom.kinds.override_summary import (
    NO_MATCH,
    ack_counts,
    ack_text,
    acknowledgements_of,
    changes_text,
    remaining,
    set_changes,
    state_of,
    waits_for_approval,
)
from fathom.kinds.scheduler_override import SchedulerOverride, expiry_ns
from fathom.kinds.shape import GROUP, read
from fathom.model.times import SECOND_NS, duration_ns, human_duration, timestamp

Obj = dict[str, Any]

COLUMNS = ("NAME", "TARGET", "CHANGES", "OWNER", "EXPIRES", "ACK", "STATE")
WIDE_COLUMNS = ("SCOPE", "REASON")
HASH_SHOWN = 12  # Characters: enough to compare by eye.

UNDONE = {
    BY_ITSELF: "over at once",
    BY_ACTION: "undone by the override controller",
    STAYS: "what was done under it stays",
}


def override_of(obj: Obj) -> SchedulerOverride:
    """Raises Problem."""
    try:
        return read(SchedulerOverride, obj)
    except ValueError as error:
        name = (obj.get("metadata") or {}).get("name")
        raise Problem(f"the SchedulerOverride {name} of the API server cannot be read: {error}") from error


# In a list.


def list_rows(
    objs: Sequence[Obj], *, now_ns: int, with_namespace: bool, wide: bool = False
) -> list[tuple[str, ...]]:
    head = (*(("NAMESPACE",) if with_namespace else ()), *COLUMNS, *(WIDE_COLUMNS if wide else ()))
    ordered = sorted(objs, key=by_name)
    return [head, *(_row(override_of(obj), now_ns, with_namespace, wide) for obj in ordered)]


def _row(override: SchedulerOverride, now_ns: int, with_namespace: bool, wide: bool) -> tuple[str, ...]:
    meta, spec = override.metadata, override.spec
    return (
        *((meta.namespace,) if with_namespace else ()),
        meta.name,
        spec.target,
        changes_text(override),
        override.status.author or "-",
        remaining(override, now_ns),
        ack_text(override),
        state_of(override, now_ns),
        *((spec.scope or EVERYWHERE, spec.reason) if wide else ()),
    )


# In full.


def show_lines(obj: Obj, *, now_ns: int) -> list[str]:
    """Everything: what it changes, for whom, where, why, who asked, until when, who honours it, how to undo
    it."""
    override = override_of(obj)
    meta = override.metadata
    head = f"override {meta.namespace}/{meta.name}: {state_of(override, now_ns)}"
    return [head, *_paragraphs([*_request(override, now_ns), *_progress(override, now_ns)])]


def _request(override: SchedulerOverride, now_ns: int) -> Iterator[tuple[str, Iterable[str]]]:
    """What was asked for."""
    meta, spec = override.metadata, override.spec
    yield "what", _change_lines(override)
    yield "for", [f"{spec.target} in namespace {meta.namespace}"]
    yield "where", [_where(spec.scope)]
    yield "why", [spec.reason]
    created = f", at {meta.creation_timestamp}" if meta.creation_timestamp else ""
    yield "asked by", [f"{author_text(override) or 'unknown'}{created}"]
    yield "until", [_until(override, now_ns)]


def author_text(override: SchedulerOverride) -> str:
    """'jane', or 'jane, through assistant X 1.0 via fathom mcp'"""
    through = override.spec.requested_through
    return f"{override.status.author}{f', through {through}' if through else ''}"


def _progress(override: SchedulerOverride, now_ns: int) -> Iterator[tuple[str, Iterable[str]]]:
    """What became of it, and what can be done."""
    status, is_ending = override.status, bool(override.metadata.deletion_timestamp)
    yield "honoured by", [] if is_ending else _ack_lines(override)
    yield "concerns", [concerns_text(override)]
    yield "approval", [_approval(override)]
    yield "at its end", _end_lines(override)
    yield "left behind", [_residue(each.effect, each.object, each.message) for each in status.residue]
    yield (
        "conditions",
        [
            f"{each.type}={each.status}"
            + (f" ({each.reason})" if each.reason else "")
            + (f": {each.message}" if each.message else "")
            for each in status.conditions
        ],
    )
    yield "undo it with", [] if is_ending else [_command("end", override)]


def _paragraphs(parts: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    filled = [(title, list(lines)) for title, lines in parts]
    width = max((len(title) for title, lines in filled if lines), default=0)
    return [
        f"  {title if number == 0 else '':<{width}}  {line}"
        for title, lines in filled
        for number, line in enumerate(lines)
    ]


def _change_lines(override: SchedulerOverride) -> list[str]:
    states = {each.name: each for each in override.status.changes}
    lines = []
    for name, value in set_changes(override).items():
        state = states.get(name)
        why = ""
        if state is not None:
            detail = ": ".join(part for part in (state.reason, state.message) if part)
            why = f" [{state.state}{f': {detail}' if detail else ''}]"
        lines.append(f"{change_text(name, value)}: {CHANGES[name].about}{why}")
    return lines


def change_text(name: str, value: Any) -> str:
    """'pauseAutoscaler', 'avoidZones eu-west-a, eu-west-b', 'trafficWeights eu-west=90'"""
    if value is True:
        return name
    if isinstance(value, dict):
        parts = [f"{key}={_listed(item, '|')}" for key, item in value.items()]
        return f"{name} {', '.join(parts)}"
    return f"{name} {_listed(value, ', ')}"


def _listed(value: Any, separator: str) -> str:
    return separator.join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _where(scope: str) -> str:
    return "everywhere in the cluster" if scope in {"", EVERYWHERE} else scope


def _until(override: SchedulerOverride, now_ns: int) -> str:
    ends_ns, lasts = expiry_ns(override), _lasts(override)
    extended = override.status.extensions
    times = f"; extended {extended} time{'' if extended == 1 else 's'}" if extended else ""
    if waits_for_approval(override):
        return f"{lasts} after its approval{times}"
    if ends_ns is None:
        return f"no end is known, so it is not in force (expiresAfter: {lasts})"
    if ended := override.metadata.deletion_timestamp:
        return f"{ended} (it was ended), instead of {timestamp(ends_ns)}{times}"
    left = f"in {remaining(override, now_ns)}" if now_ns < ends_ns else "it has ended"
    return f"{timestamp(ends_ns)} ({left}), {lasts} after it was written{times}"


def _lasts(override: SchedulerOverride) -> str:
    lasts_ns = duration_ns(override.spec.expires_after)
    return repr(override.spec.expires_after) if lasts_ns is None else human_duration(lasts_ns / SECOND_NS)


def _ack_lines(override: SchedulerOverride) -> list[str]:
    acks = ack_counts(override)
    lines = []
    for name in (*acks.honoring, *acks.declined):
        for each in acknowledgements_of(override, name):
            reason = f": {each.reason}" if each.reason else ""
            cache = f", cache at revision {each.cache_revision}" if each.cache_revision else ""
            seen = f"generation {each.observed_generation}{cache}"
            lines.append(f"{each.controller}: {each.state}{reason} ({seen})")
    generation = override.metadata.generation
    return [*lines, *(f"{name}: has not acknowledged generation {generation}" for name in acks.missing)]


def concerns_text(override: SchedulerOverride) -> str:
    """The blast radius, as the server counted it."""
    radius = override.status.blast_radius
    if radius is None:
        return "no data: the server has not counted what it concerns"
    counts = [
        _count(radius.pods, "pod"),
        _count(radius.nodes, "node"),
        _count(radius.tenants, "tenant"),
        f"at most {radius.zone_percent} % of a zone's nodes",
    ]
    if radius.below_minimum:
        counts.append(f"{_count(radius.below_minimum, 'workload')} left below the minimum of replicas")
    return ", ".join(counts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _as_approvals_are_off(override: SchedulerOverride) -> str:
    """Of a risky change: a second person would have to approve it where SteeringLimits ask for that."""
    rules = [CHANGES[name] for name in set_changes(override)]
    risky = any(rule.risk == HIGH and rule.control_class != BREAK_GLASS for rule in rules)
    return " (it is risky, and the SteeringLimits have approvals off)" if risky else ""


def _approval(override: SchedulerOverride) -> str:
    approval = override.status.approval
    if approval is None or (not approval.required and approval.approved is None):
        return f"not needed{_as_approvals_are_off(override)}"
    if approval.approved is None:
        author = override.status.author or "its author"
        command = _command("approve", override)
        return f"needed: nothing is in force before somebody other than {author} runs `{command}`"
    word = "approved" if approval.approved else "refused"
    spec = f", spec {approval.spec_hash[:HASH_SHOWN]}" if approval.spec_hash else ""
    return f"{word} by {approval.approver} at {approval.approved_at}{spec}"


def _end_lines(override: SchedulerOverride) -> list[str]:
    """The changes by what becomes of them."""
    names = set_changes(override)
    lines = []
    for undone, words in UNDONE.items():
        listed = [name for name in names if CHANGES[name].undone == undone]
        if listed:
            lines.append(f"{', '.join(listed)}: {words}")
    if "breakGlassRole" in names:
        lines.append(
            f"somebody else reviews what was done: fathom override review -n {override.metadata.namespace}"
        )
    moved = override.spec.on_end == "move"
    if any(CHANGES[name].undone == STAYS for name in names):
        lines.append(
            f"pods that it placed {'are evicted' if moved else 'stay'} (onEnd: {'move' if moved else 'keep'})"
        )
    return lines


def _residue(effect: str, about: str, message: str) -> str:
    return f"{effect} {about}".rstrip() + (f": {message}" if message else "")


def _command(verb: str, override: SchedulerOverride) -> str:
    return f"fathom override {verb} {override.metadata.name} -n {override.metadata.namespace}"


# Before it is created, or changed.


def confirmation_lines(obj: Obj, *, place: str, now_ns: int, warnings: Iterable[str] = ()) -> list[str]:
    """What would be written, as a server's dry run answered, and where."""
    return _paragraphs([*_planned(override_of(obj), place, now_ns), ("warning", warnings)])


def approval_lines(obj: Obj, *, place: str, now_ns: int) -> list[str]:
    """What somebody is asked to approve, and the hash of its spec."""
    override = override_of(obj)
    approval = override.status.approval
    spec_hash = [] if approval is None or not approval.spec_hash else [approval.spec_hash]
    return _paragraphs([*_planned(override, place, now_ns), ("spec hash", spec_hash)])


def _planned(override: SchedulerOverride, place: str, now_ns: int) -> Iterator[tuple[str, Iterable[str]]]:
    meta, spec, status = override.metadata, override.spec, override.status
    yield from (
        ("context", [place]),
        ("namespace", [meta.namespace]),
        ("override", [meta.name]),
        ("target", [spec.target]),
        ("where", [_where(spec.scope)]),
        ("changes", _change_lines(override)),
        ("reason", [spec.reason]),
        ("author", [author_text(override)] if status.author else []),
        ("until", [_until(override, now_ns)]),
        ("concerns", [concerns_text(override)]),
        ("approval", [_approval(override)]),
    )


# After it ended.


def residue_lines(obj: Obj, *, proven: bool) -> list[str]:
    """What is left of an override that has ended. `proven`: its finalizer held it until nothing was."""
    override = override_of(obj)
    name = f"{override.metadata.namespace}/{override.metadata.name}"
    residue = override.status.residue
    if residue:
        return [
            f"override {name} has ended, and left {_count(len(residue), 'effect')} behind:",
            *(f"  {_residue(each.effect, each.object, each.message)}" for each in residue),
            f"it stays until they are gone: {_command('show', override)}",
        ]
    if proven:
        return [f"override {name} has ended, and it is proven that nothing is left of it"]
    return [f"override {name} has ended; what is left of it was not checked, because it had no finalizer"]


def no_match_lines(obj: Obj) -> list[str]:
    """The changes that match nothing, and why."""
    return [
        f"{each.name} matches nothing: {each.message or each.reason}"
        for each in override_of(obj).status.changes
        if each.state == NO_MATCH
    ]


def holds_proof(obj: Obj) -> bool:
    """Whether a finalizer of fathom's holds the override until its residue proof."""
    finalizers = (obj.get("metadata") or {}).get("finalizers") or ()
    return any(str(each).startswith(f"{GROUP}/") for each in finalizers)
