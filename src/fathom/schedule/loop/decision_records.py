"""Writes decision records to the journal before anything is sent: pod, cause, view, each node's reason.

One pass over the nodes answers for many pods, so the reasons are written as a table once, and each decision
records where it differs. A new table is written when the differences grow, when there are new reasons, or
after so many decisions that the journal might drop the old one: a reader needs only a stretch of the journal.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fathom.model.cause import WakeCause
from fathom.model.decision import (
    Considered,
    Decision,
    Journal,
    Outcome,
    RecordedVerdicts,
    Result,
    Roster,
    SeenVersions,
    Subject,
    VerdictColumn,
)
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.verdicts import Codes, Domains, VerdictLog
from fathom.schedule.loop.consulted import Consulted
from fathom.schedule.loop.queue import QueueEntry

# More differences than this cost more than a table of their own.
DIFFERS_MAX = 24
# A segment of the journal holds some 40,000 decisions; a decision's table is at most so many decisions back.
TABLE_AGE_MAX = 5_000
# Rules whose reasons name the policy, the override or the tenant that they are about.
OF_POLICY = frozenset({"Freshness", "MaxZoneSkew"})
OF_OVERRIDES = frozenset({"Override"})
OF_QUOTA = frozenset({"TenantQuota"})
OF_CLASS = frozenset({"CapacityClass"})
LEVEL = 1  # zlib's fastest: columns of codes are mostly one value.


class BatchContext(msgspec.Struct, frozen=True):
    """What the decisions of one batch share."""

    time_ns: int
    now_ns: int  # Monotonic: the queue's clock.
    seen: dict[str, SeenVersions]
    seen_briefly: dict[
        str, SeenVersions
    ]  # Without kinds that have no objects: for decisions that found a node.
    epoch: int
    need: str
    context: PlacementContext
    generation: Mapping[str, int] = {}  # UID -> generation of the pod.
    consulted: Consulted = Consulted()


class _Kept(msgspec.Struct):
    """A table that the journal has, and what it was made from."""

    id: str
    log: Any  # VerdictLog: compared by identity, so a reference is kept.
    decision: int
    reasons: int
    age: int = 0


class Recorder:
    def __init__(self, journal: Journal, *, prefix: str, controller: str) -> None:
        self._journal = journal
        self._prefix = prefix  # Unique per process start: ids are short, and never repeat.
        self._controller = controller
        self._count = 0
        self._roster: tuple[int, str, int] | None = None  # nodes_version, id, age.
        self._columns: dict[int, tuple[str, Any, int]] = {}  # id(column) -> its id, the column, age.
        self._kept: _Kept | None = None

    def next_id(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count:x}"

    def decided(
        self,
        entry: QueueEntry,
        pod: PodView,
        placement: Placement,
        around: BatchContext,
        *,
        verdict: str,
        names: Sequence[str],
        nodes_version: int,
        chosen: str = "",
        **more: Any,
    ) -> str:
        """Record a decision. Returns its id, which the binding carries."""
        id_ = self.next_id()
        table, differs = self._verdicts(placement, names, nodes_version)
        decisive = _decisive(placement)
        self._journal.decided(
            Decision(
                id=id_,
                time_ns=around.time_ns,
                controller=self._controller,
                subject=Subject("pods", *pod.key, pod.uid, around.generation.get(pod.uid, 0)),
                verdict=verdict,
                attempt=entry.attempt,
                cause=entry.cause,
                queued_ms=round((around.now_ns - entry.since_ns) / 1e6, 1),
                seen=around.seen if placement.node is None else around.seen_briefly,
                epoch=around.epoch,
                need=around.need,
                policies=_policies(around.consulted, decisive),
                overrides=_overrides(around.consulted, decisive, entry.pod.raised_by),
                quotas=_quotas(around.consulted, placement, decisive),
                filters=dict(placement.rejected),
                rejected=placement.rejections,
                place=entry.place,
                verdicts=table,
                differs=differs,
                scores=dict(placement.scores),
                node=chosen or placement.node or "",
                nodes=placement.nodes,
                observed_generation=around.generation.get(pod.uid, 0),
                message=placement.message,
                priority=pod.priority,
                **more,
            )
        )
        return id_

    def noted(
        self,
        verdict: str,
        subject: Subject,
        *,
        cause: WakeCause,
        time_ns: int,
        epoch: int,
        why: str,
        controller: str = "",
    ) -> str:
        """Record a decision that is no attempt to place a pod: a condition, a report. Returns its id."""
        id_ = self.next_id()
        self._journal.decided(
            Decision(
                id=id_,
                time_ns=time_ns,
                controller=controller or self._controller,
                subject=subject,
                verdict=verdict,
                cause=cause,
                epoch=epoch,
                observed_generation=subject.generation,
                message=why,
            )
        )
        return id_

    def concluded(
        self,
        id_: str,
        time_ns: int,
        result: Result,
        *,
        written: Subject | None = None,
        revision: int = 0,
        message: str = "",
        check: str = "",
    ) -> None:
        """`written`: the object that the decision wrote, or was to write."""
        self._journal.concluded(
            Outcome(
                id=id_,
                time_ns=time_ns,
                result=result,
                revision=revision,
                object=written,
                message=message,
                check=check,
            )
        )

    # Tables.

    def _verdicts(
        self, placement: Placement, names: Sequence[str], nodes_version: int
    ) -> tuple[str, tuple[tuple[int, int, int], ...]]:
        verdicts = placement.verdicts
        if verdicts is None:
            return "", ()
        log: VerdictLog = verdicts.log
        kept = self._kept
        if kept is not None and kept.log is log and kept.reasons == len(log.reasons):
            changes = log.changes
            if not changes or changes[-1].decision <= kept.decision:
                differs: tuple[tuple[int, int, int], ...] = ()
            else:
                first = bisect_right(changes, kept.decision, key=_decision_of)
                last = bisect_right(changes, verdicts.decision, key=_decision_of)
                differs = tuple([(change.layer, change.at, change.code) for change in changes[first:last]])
            kept.age += 1
            if len(differs) <= DIFFERS_MAX and kept.age < TABLE_AGE_MAX:
                return kept.id, differs
        return self._new_table(log, verdicts.decision, names, nodes_version), ()

    def _new_table(self, log: VerdictLog, decision: int, names: Sequence[str], nodes_version: int) -> str:
        id_ = self.next_id()
        own, layers = layers_at(log, decision)
        self._journal.tabled(
            RecordedVerdicts(
                id=id_,
                roster=self._roster_id(names, nodes_version),
                reasons=("", *(_text(reason) for reason in log.reasons[1:])),
                codes=zlib.compress(own.tobytes(), LEVEL),
                columns=tuple(self._column_id(domains) for domains, _ in layers),
                by_domain=tuple(zlib.compress(codes.tobytes(), LEVEL) for _, codes in layers),
                rules=("", *(reason.rule for reason in log.reasons[1:])),
                not_resolvable=tuple(
                    code for code, reason in enumerate(log.reasons[1:], 1) if not reason.resolvable
                ),
            )
        )
        self._kept = _Kept(id_, log, decision, len(log.reasons))
        return id_

    def _roster_id(self, names: Sequence[str], nodes_version: int) -> str:
        if self._roster is not None and self._roster[0] == nodes_version:
            _, id_, age = self._roster
            if self._count - age < TABLE_AGE_MAX:
                return id_
        id_ = self.next_id()
        self._journal.tabled(Roster(id=id_, names=tuple(names)))
        self._roster = (nodes_version, id_, self._count)
        return id_

    def _column_id(self, domains: Any) -> str:
        recorded = self._columns.get(id(domains))
        if recorded is not None and recorded[1] is domains and self._count - recorded[2] < TABLE_AGE_MAX:
            return recorded[0]
        if len(self._columns) > 64:
            self._columns.clear()
        id_ = self.next_id()
        self._journal.tabled(
            VerdictColumn(id=id_, domains=zlib.compress(domains.astype("<i4").tobytes(), LEVEL))
        )
        self._columns[id(domains)] = (id_, domains, self._count)
        return id_


def layers_at(log: VerdictLog, decision: int) -> tuple[Codes, list[tuple[Domains, Codes]]]:
    """The codes as they stood at a decision, layer by layer."""
    codes = [log.own.copy(), *(by_domain.copy() for _, by_domain in log.layers)]
    for change in log.changes[: bisect_right(log.changes, decision, key=_decision_of)]:
        codes[change.layer][change.at] = change.code
    return codes[0], [(domains, mine) for (domains, _), mine in zip(log.layers, codes[1:], strict=True)]


def _decision_of(change: Any) -> int:
    return int(change.decision)


def _text(reason: Any) -> str:
    return f"{reason.rule}: {', '.join(reason.texts)}"


class _Decisive(msgspec.Struct, frozen=True):
    """Names of what made the decision what it is."""

    policies: frozenset[str] = frozenset()
    overrides: frozenset[str] = frozenset()  # 'NAMESPACE/NAME'
    tenants: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()


_NONE = _Decisive()


def _decisive(placement: Placement) -> _Decisive:
    """Most placements reject nodes for no reason that names an object."""
    about = [(reason.rule, reason.about) for reason, _ in placement.rejecting if reason.about]
    if (
        not about
        and not placement.overrides
        and not placement.capacity_class
        and not placement.policy_decides
    ):
        return _NONE
    policies = {name for rule, name in about if rule in OF_POLICY} if placement.node is None else set()
    return _Decisive(
        policies=frozenset(policies | ({placement.policy} if placement.policy_decides else set())),
        overrides=frozenset([*placement.overrides, *(name for rule, name in about if rule in OF_OVERRIDES)]),
        tenants=frozenset(name for rule, name in about if rule in OF_QUOTA),
        classes=frozenset([name for rule, name in about if rule in OF_CLASS]),
    )


def _policies(consulted: Consulted, decisive: _Decisive) -> tuple[Considered, ...]:
    marked = _marked(consulted.policies, decisive.policies)
    return (*marked, *consulted.budgets) if consulted.budgets else marked


def _overrides(consulted: Consulted, decisive: _Decisive, raised_by: str) -> tuple[Considered, ...]:
    """`raised_by`: the override that brought the pod forward in the queue."""
    names = decisive.overrides | {raised_by} if raised_by else decisive.overrides
    if not names:
        return consulted.overrides
    return tuple(
        msgspec.structs.replace(override, decisive=f"{override.namespace}/{override.name}" in names)
        for override in consulted.overrides
    )


def _quotas(consulted: Consulted, placement: Placement, decisive: _Decisive) -> tuple[Considered, ...]:
    """The tenant's quota, and the capacity classes that rejected nodes or that the placement draws on."""
    if not consulted.classes:
        return _marked(consulted.quotas, decisive.tenants)
    named = decisive.classes | {placement.capacity_class}
    classes = tuple(each for each in consulted.classes if each.name in named)
    return (*_marked(consulted.quotas, decisive.tenants), *_marked(classes, decisive.classes))


def _marked(considered: tuple[Considered, ...], decisive: frozenset[str]) -> tuple[Considered, ...]:
    if not decisive:
        return considered
    return tuple(msgspec.structs.replace(each, decisive=each.name in decisive) for each in considered)
