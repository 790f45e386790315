"""The entry points for questions that came through the API: their spec has times as people write them."""

from __future__ import annotations

from typing import Protocol

from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.explain.timeline import answer as timeline_answer
from fathom.explain.timeline import wanted as timeline_wanted
from fathom.explain.timeline.timeline import Timeline, TimelineSpec
from fathom.model.times import duration_ns, moment_ns


class AskedTimeline(Protocol):
    """The `spec` of a Timeline of the API."""

    @property
    def since(self) -> str: ...  # A duration before now, or an RFC 3339 time; '' is the beginning.

    @property
    def at(self) -> str: ...  # The end: a revision, or an RFC 3339 time; '' is now.

    @property
    def generation(self) -> int: ...

    @property
    def fold(self) -> bool: ...


class BadQuestion(ValueError):
    """A text of the spec is not what it has to be. The message says which."""


def wanted(subject: ObjectRef, objects: Objects, spec: AskedTimeline) -> RecordQuery:
    """A duration is counted from the evidence's time, which is not known yet: everything is read then.
    Raises BadQuestion."""
    if spec.since and duration_ns(spec.since) is None and moment_ns(spec.since) is None:
        raise BadQuestion(
            f"spec.since must be a duration such as 10m, or an RFC 3339 time, not {spec.since!r}"
        )
    if spec.at and not spec.at.isdecimal() and moment_ns(spec.at) is None:
        raise BadQuestion(f"spec.at must be a revision or an RFC 3339 time, not {spec.at!r}")
    return timeline_wanted.wanted(subject, objects, spec_of(spec, now_ns=0))


def answer(evidence: Evidence, spec: AskedTimeline) -> Timeline:
    return timeline_answer.answer(evidence, spec_of(spec, now_ns=evidence.now_ns))


def spec_of(spec: AskedTimeline, *, now_ns: int) -> TimelineSpec:
    """Texts that are neither are left out: `wanted` has refused them before."""
    before_ns = duration_ns(spec.since)
    since_ns = moment_ns(spec.since) if before_ns is None else max(0, now_ns - before_ns)
    return TimelineSpec(
        since_ns=since_ns or 0,
        until_ns=moment_ns(spec.at) or 0,
        until_revision=int(spec.at) if spec.at.isdecimal() else 0,
        generation=spec.generation,
        fold=spec.fold,
    )
