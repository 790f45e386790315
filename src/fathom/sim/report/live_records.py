"""The records of a run as live processes would keep them: journals, the audit log, and the objects.

From these `explain/timeline` makes a timeline as it would live. Nothing else of the chronicle is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from fathom.explain.evidence import CacheObservation, Evidence, HeldObjects, ObjectRef, Recorded
from fathom.explain.timeline.scope import POLICIES
from fathom.explain.timeline.timeline import singular
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.decision import Decision, KeptDecision, Outcome
from fathom.model.objects import Obj
from fathom.sim.report.chronicle import Audited, Chronicle, Concluded, DecisionMade
from fathom.sim.report.evidence import hearing, objects_at_end
from fathom.sim.world.process import EPOCH_NS

# Kinds whose changes decisions wait for.
STEERING = frozenset({TENANT_QUOTAS, OVERRIDES, POLICIES, "resourcequotas"})


def recorded_decisions(chronicle: Chronicle) -> tuple[Recorded, ...]:
    decisions: list[tuple[str, Decision]] = []
    outcomes: dict[str, list[Outcome]] = {}
    for event in chronicle.events:
        if isinstance(event, DecisionMade):
            decisions.append((event.process, event.decision))
        elif isinstance(event, Concluded):
            outcomes.setdefault(event.outcome.id, []).append(event.outcome)
    return tuple(
        Recorded(process, KeptDecision(decision, tuple(outcomes.get(decision.id, ()))))
        for process, decision in decisions
    )


def observations(chronicle: Chronicle) -> tuple[CacheObservation, ...]:
    """As the tapes of the processes have them."""
    return tuple(
        CacheObservation(
            process=process,
            kind=singular(resource),
            revision=revision,
            time_ns=EPOCH_NS + chronicle.events[event].at_ns,
        )
        for (process, _, resource), revisions in hearing(chronicle).items()
        if resource in STEERING
        for event, revision in revisions
    )


class LiveRecords:
    """Of one run; read once, asked about many objects."""

    def __init__(self, chronicle: Chronicle) -> None:
        self._decisions = recorded_decisions(chronicle)
        self._audit = tuple(event.entry for event in chronicle.events if isinstance(event, Audited))
        listed: dict[str, list[Obj]] = {}
        for resource, obj in objects_at_end(chronicle):
            listed.setdefault(resource, []).append(obj)
        self._objects = HeldObjects(listed)
        self._observations = observations(chronicle)
        self._now_ns = max((record.kept.decision.time_ns for record in self._decisions), default=0)

    def evidence(self, subject: ObjectRef) -> Evidence:
        return Evidence(
            subject=subject,
            objects=self._objects,
            decisions=self._decisions,
            audit=self._audit,
            observations=self._observations,
            now_ns=self._now_ns,
        )

    def subjects(self) -> Iterable[ObjectRef]:
        """Every object that a decision was about."""
        return dict.fromkeys(
            ObjectRef(subject.resource, subject.namespace, subject.name, subject.uid)
            for record in self._decisions
            if (subject := record.kept.decision.subject).uid
        )
