"""Shows similar entries as one with a count: a status written every second, a retry that fails alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from fathom.explain.timeline.timeline import Edge, Entry, path_of
from fathom.model.resource_names import AUTOSCALERS

_NUMBERS = re.compile(r"\b[0-9a-f]*\d[0-9a-f]*(-[0-9a-f]+)*\b")
_ATTEMPT = re.compile(r"\(attempt \d+\)")
# Two alike may both matter; from three on it is routine.
ALIKE_MIN = 3


def without_routine(entries: Sequence[Entry], edges: Sequence[Edge]) -> list[Entry]:
    """Without owners' reports of their own status: a ReplicaSet counts its pods after every change of any of
    them. An autoscaler's report is kept: it says why it scales."""
    dropped = _mere_reports(entries, edges)
    dropped |= {entry.id for entry in entries if _is_owners_report(entry)}
    strangers = {
        entry.id
        for entry in entries
        if entry.object is not None
        and not entry.role
        and entry.id.startswith("write:")  # A refused write is shown for its own sake.
    }
    useful = {edge.cause for edge in edges if edge.effect not in dropped}
    # What an owner wrote elsewhere are siblings and namesakes of the subject.
    own = {entry.id for entry in entries if entry.role in {"subject", "owned"}}
    useful |= {edge.effect for edge in edges if edge.kind == "wrote" and edge.cause in own}
    return [
        entry
        for entry in entries
        if entry.id not in dropped and (entry.id not in strangers or entry.id in useful)
    ]


def _mere_reports(entries: Sequence[Entry], edges: Sequence[Edge]) -> set[str]:
    """Decisions that led to nothing but an Event, which says the same and is shown."""
    effects: dict[str, set[str]] = {}
    for edge in edges:
        effects.setdefault(edge.cause, set()).add(edge.kind)
    routine = (entry.id for entry in entries if entry.routine and entry.source == "decision")
    return {id_ for id_ in routine if effects.get(id_) == {"reported"}}


def _is_owners_report(entry: Entry) -> bool:
    ref = entry.object
    return entry.role == "owner" and ref is not None and ref.resource != AUTOSCALERS and entry.routine


def folded(entries: Sequence[Entry], edges: Sequence[Edge]) -> tuple[list[Entry], list[Edge]]:
    """Entries must be in order. Folds runs of similar entries of one object: an entry of another sort
    about that object ends the run, others do not."""
    runs: list[list[Entry]] = []
    latest: dict[tuple[str, str], dict[str, list[Entry]]] = {}
    for entry in entries:
        stream = (path_of(entry.object) if entry.object is not None else "", entry.source)
        alike = _alike(entry)
        run = latest.get(stream, {}).get(alike)
        if run is None:
            run = []
            runs.append(run)
            latest[stream] = {alike: run}
        run.append(entry)
    instead = {entry.id: run[0].id for run in runs if len(run) >= ALIKE_MIN for entry in run}
    kept = [entry for run in runs for entry in ([_one(run)] if len(run) >= ALIKE_MIN else run)]
    places = {entry.id: place for place, entry in enumerate(entries)}
    kept.sort(key=lambda entry: places[entry.id])
    return kept, _moved(edges, kept, instead)


def _alike(entry: Entry) -> str:
    """Numbers in a report of status or of caches do not make a difference; in what was done they do."""
    is_report = entry.routine or entry.source in {"cache", "queue"}
    return f"{entry.actor} {(_NUMBERS if is_report else _ATTEMPT).sub('N', entry.text)}"


def _one(run: Sequence[Entry]) -> Entry:
    return msgspec.structs.replace(
        run[0],
        count=sum(entry.count for entry in run),
        until=run[-1].until or run[-1].time,
        also=tuple(id_ for entry in run for id_ in (entry.id, *entry.also) if id_ != run[0].id),
    )


def _moved(edges: Sequence[Edge], entries: Sequence[Entry], instead: dict[str, str]) -> list[Edge]:
    """Edges of folded entries are those of the entry that stands for them. One that would lead back in time
    is dropped: it is about a later entry of the run."""
    times = {entry.id: entry.time for entry in entries}
    moved: dict[Edge, None] = {}
    for edge in edges:
        cause, effect = instead.get(edge.cause, edge.cause), instead.get(edge.effect, edge.effect)
        is_moved = cause != edge.cause or effect != edge.effect
        if cause != effect and not (is_moved and times[cause] > times[effect]):
            moved[Edge(cause, effect, edge.kind, edge.inferred)] = None
    return list(moved)
