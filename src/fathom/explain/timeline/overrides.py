"""Overrides that hold the subject of a timeline: which they are, what their writes say, and when they ended.

That an override expires is no write: nobody is told, and the entry follows from the end that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.explain.evidence import Evidence, ObjectRef, Objects
from fathom.explain.timeline.timeline import Entry, singular, words_for
from fathom.kinds.override_scope import HELD_KINDS, holds
from fathom.kinds.override_summary import changes_text
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, approval_given, expiry_ns
from fathom.kinds.shape import read
from fathom.model.objects import Obj, key_of, uid_of
from fathom.model.times import micro_timestamp, timestamp


def override_of(obj: Obj | None) -> SchedulerOverride | None:
    """None also for one that another server has stored: nobody acts on it."""
    try:
        return None if obj is None else read(SchedulerOverride, obj)
    except ValueError:
        return None


def overrides_holding(subject: ObjectRef, obj: Obj | None, objects: Objects) -> list[ObjectRef]:
    """Overrides that target the subject, whether or not they have ended."""
    kind = HELD_KINDS.get(singular(subject.resource))
    if obj is None or kind is None:
        return []
    return [
        ObjectRef(OVERRIDES, *key_of(listed), uid_of(listed))
        for listed in objects.list(OVERRIDES)
        if (override := override_of(listed)) is not None and holds(override, kind, obj)
    ]


def created_words(override: SchedulerOverride) -> str:
    """What stands behind 'creates scheduleroverride calm'. Of one that was changed since, the first spec is
    not known."""
    if override.metadata.generation > 1:
        return ""
    ends_ns = expiry_ns(override) if approval_given(override) else None
    until = "" if ends_ns is None else f", until {timestamp(ends_ns)}"
    return f": {changes_text(override)} for {override.spec.target}{until}"


def end_entries(evidence: Evidence, refs: Sequence[ObjectRef]) -> Iterator[Entry]:
    """Of overrides that have expired. One that was deleted before has a write that says so."""
    for ref in refs:
        override = override_of(evidence.objects.get(OVERRIDES, ref.key))
        if override is None or override.metadata.deletion_timestamp or not approval_given(override):
            continue
        ends_ns = expiry_ns(override)
        if ends_ns is not None and ends_ns <= evidence.now_ns:
            yield Entry(
                id=f"override-end:{ref.uid}:{override.metadata.generation}",
                time=micro_timestamp(ends_ns),
                source="override",
                actor=words_for(ref),
                text=f"ends, as its author {override.status.author} asked for: {changes_text(override)}",
                object=ref,
            )
