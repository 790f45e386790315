"""Decisions of code that makes no plans: heartbeats, gateway, housekeeping, a process's reports about itself.

    id = log.decided("status", subject, cause=…, why=…)      in the journal before anything is sent
    outcome = await api.with_decision(id).patch(…)           the audit entry of the write names the decision
    log.concluded(id, outcome, subject)

Controllers that plan use `commit`, which does all of this.
"""

from __future__ import annotations

import msgspec

from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown
from fathom.model import decision
from fathom.model.cause import WakeCause
from fathom.model.decision import Considered, Decision, Journal, Result, Subject
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.resource import Resource
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.seams.outside import Clock
from fathom.seams.process import Inside


class DecisionLog:
    def __init__(self, journal: Journal, *, prefix: str, controller: str, clock: Clock) -> None:
        self._journal = journal
        self._prefix = prefix  # Unique for each start of a process: ids are short, and never repeat.
        self._controller = controller
        self._clock = clock
        self._count = 0
        self._parts = 0

    def of(self, controller: str) -> DecisionLog:
        """A log of its own for one of several controllers that share a process."""
        self._parts += 1
        prefix = f"{self._prefix}.{self._parts:x}"
        return DecisionLog(self._journal, prefix=prefix, controller=controller, clock=self._clock)

    def decided(
        self,
        verdict: str,
        subject: Subject,
        *,
        cause: WakeCause,
        why: str,
        epoch: int = 0,
        considered: tuple[Considered, ...] = (),
    ) -> str:
        """Record the decision; its id. `considered`: other objects that it follows from."""
        self._count += 1
        id_ = f"{self._prefix}-{self._count:x}"
        path = "/".join(part for part in (subject.namespace, subject.name) if part)
        self._journal.decided(
            Decision(
                id=id_,
                time_ns=self._clock.now_ns(),
                controller=self._controller,
                subject=subject,
                verdict=verdict,
                cause=cause,
                epoch=epoch,
                actions=(f"{verdict} {subject.resource} {path}",),
                policies=considered,
                observed_generation=subject.generation,
                message=why,
            )
        )
        return id_

    def concluded(self, id_: str, outcome: Outcome, subject: Subject) -> None:
        result, revision, message = result_of(outcome)
        if isinstance(outcome, Committed) and not subject.uid:
            subject = msgspec.structs.replace(subject, uid=_written_uid(outcome.obj))
        self._journal.concluded(
            decision.Outcome(
                id=id_,
                time_ns=self._clock.now_ns(),
                result=result,
                revision=revision,
                object=subject,
                message=message,
            )
        )


def _written_uid(answer: Obj) -> str:
    """The answer to a delete is a Status, whose details name what was deleted."""
    return uid_of(answer) or str(lookup(answer, "details", "uid") or "")


def log_of(inside: Inside, controller: str) -> DecisionLog:
    """The log of one part of a process; call it once for each part."""
    prefix = f"{inside.streams.stream(f'decisions/{controller}').getrandbits(48):012x}"
    return DecisionLog(inside.journal, prefix=prefix, controller=controller, clock=inside.outside.clock)


def subject_of(resource: Resource, obj: Obj) -> Subject:
    """An object, as a decision names it."""
    meta = metadata(obj)
    return Subject(
        resource.name,
        str(meta.get("namespace") or ""),
        str(meta.get("name") or ""),
        uid_of(obj),
        int(meta.get("generation") or 0),
    )


def subject_at(resource: Resource, key: Key, uid: str = "") -> Subject:
    """An object that was not read."""
    return Subject(resource.name, *key, uid)


def reporting(event: Obj, id_: str) -> Obj:
    """The Event, naming the decision that it reports."""
    meta = metadata(event)
    annotations = {**(meta.get("annotations") or {}), DECISION_ANNOTATION: id_}
    return {**event, "metadata": {**meta, "annotations": annotations}}


def result_of(outcome: Outcome) -> tuple[Result, int, str]:
    """Result, revision and message for the journal."""
    match outcome:
        case Committed():
            return "committed", outcome.revision, ""
        case Conflict(why=why):
            return "conflict", 0, why
        case Rejected(message=message):
            return "rejected", 0, message
        case Unknown(cause=cause):
            return "unknown", 0, cause
