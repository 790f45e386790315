"""Preemption: which pods to evict, on the node with the least harm, for a pod that no node can take.

    nodes where removing pods could help
      └─ all pods of lower priority lifted: does it fit?        no: not there
           └─ put back, most important first, as many as still fit   the rest are the victims
    the node with the least harm: fewest budgets broken, lowest highest victim, lowest sum, fewest, youngest

Nothing is evicted here. The caller evicts, and claims the room for the pod on the node (`table.claim`), so
that no pod of lower priority takes it meanwhile and the next pod does not count on the same room: for that
reason two pods cannot preempt each other for ever. Answers for pods of one shape are kept between calls and
brought up to date row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fathom.model.objects import Key
from fathom.model.selectors import LabelSelector
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_table import CountedPod, NodeTable
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.rows import Reasons
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.shape_scan import ShapeScan
from fathom.schedule.decide.verdicts import FITS

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"

# kube-scheduler looks for a tenth of the nodes, at least so many, and takes the best of those.
CANDIDATES_MIN, CANDIDATES_SHARE = 100, 10
BUDGETS_MAX = 20  # In a record: every victim may be covered by budgets of its own.
# Priorities may be negative; with this added, more victims never have a lower sum.
PRIORITY_OFFSET = 2**31
NOT_YET = 2**63


class DisruptionBudget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget."""

    key: Key
    selector: LabelSelector
    allowed: int  # Disruptions that it still allows.
    disrupted: tuple[str, ...] = ()  # Names of pods that it has counted already.

    def covers(self, pod: PodView) -> bool:
        return (
            self.key.namespace == pod.key.namespace
            and pod.key.name not in self.disrupted
            and self.selector.matches(dict(pod.shape.labels))
        )


class ConsultedBudget(msgspec.Struct, frozen=True):
    """A budget that covers a victim, or that another node's victims would break."""

    key: Key
    decisive: bool = False  # Without budgets, a node would be chosen where this one breaks.


class Victim(msgspec.Struct, frozen=True):
    key: Key
    uid: str
    priority: int
    breaks: str = ""  # The budget that its eviction would break.
    reason: str = ""


class Preemption(msgspec.Struct, frozen=True):
    node: str | None  # None: preemption would not help.
    victims: tuple[Victim, ...] = ()
    message: str = ""
    candidates: int = 0  # Nodes where it would work, of those looked at.
    leaving: bool = False  # Victims of an earlier preemption are still terminating.
    budgets: tuple[ConsultedBudget, ...] = ()  # For the record.


class _Candidate(msgspec.Struct, frozen=True):
    row: int
    victims: tuple[PodView, ...]
    breaks: tuple[str, ...]  # By victim: the budget it breaks, or ''.
    harm: tuple[int, int, int, int, int]


def preempt(
    pod: PodView,
    table: NodeTable,
    world: PlacementContext,
    budgets: Sequence[DisruptionBudget] = (),
    rules: Rules = RULES,
) -> Preemption:
    """Choose victims for a pod that `place` found no node for. Leaves the table unchanged."""
    return Preempter(table, rules).preempt(pod, world, budgets)


class Preempter:
    def __init__(self, table: NodeTable, rules: Rules = RULES) -> None:
        self._table, self._rules = table, rules
        self._kept: _CandidateSearch | None = None

    def preempt(
        self, pod: PodView, world: PlacementContext, budgets: Sequence[DisruptionBudget] = ()
    ) -> Preemption:
        refusal = _not_eligible(pod, self._table, world)
        if refusal is not None:
            return refusal
        search = self._look(pod, world, tuple(budgets))
        if not search.candidates:
            return Preemption(None, message=search.refusals(len(self._table)))
        best = min(search.candidates.values(), key=lambda candidate: (candidate.harm, candidate.row))
        preemption = _preemption(pod, best, self._table, len(search.candidates))
        return msgspec.structs.replace(preemption, budgets=_consulted(best, search))

    def _look(
        self, pod: PodView, world: PlacementContext, budgets: tuple[DisruptionBudget, ...]
    ) -> _CandidateSearch:
        holder = pod.uid if pod.uid in self._table.claims else ""
        world = msgspec.structs.replace(world, holder=holder, tie_seed=0, seen={})
        kept = self._kept
        if kept is None or not kept.is_for(pod.shape, world, budgets):
            kept = self._kept = _CandidateSearch(
                ShapeScan(pod.shape, self._table, world, self._rules), budgets
            )
        kept.look()
        return kept


class _CandidateSearch:
    """The nodes where a pod of one shape could preempt, kept up to date as rows change."""

    def __init__(self, scan: ShapeScan, budgets: tuple[DisruptionBudget, ...]) -> None:
        self.scan, self.budgets = scan, budgets
        self.candidates: dict[int, _Candidate] = {}
        self._refused: dict[int, str] = {}
        self._untried: dict[int, None] = {}  # In order: rows not tried because there are enough candidates.
        self._version = -1

    def is_for(self, shape: PodShape, world: PlacementContext, budgets: tuple[DisruptionBudget, ...]) -> bool:
        return self.scan.shape == shape and self.scan.world == world and self.budgets == budgets

    def look(self) -> None:
        table = self.scan.table
        changed = table.changed_rows(self._version) if self._version >= 0 else None
        self.scan.refresh(self.scan.world)
        self._version = table.version
        if changed is None or self.scan.has_layers:  # A domain spans many rows: look at all.
            self.candidates, self._refused, self._untried = {}, {}, {}
            changed = list(range(table.height))
        for row in changed:
            self._sort_in(row)
        for row in list(self._untried):
            if len(self.candidates) >= max(CANDIDATES_MIN, len(table) // CANDIDATES_SHARE):
                break
            self._try(row)

    def _sort_in(self, row: int) -> None:
        self.candidates.pop(row, None)
        self._refused.pop(row, None)
        self._untried.pop(row, None)
        code = int(self.scan.codes()[row]) if row >= 0 else FITS
        if code in {FITS, Reasons.GONE}:
            return
        if self.scan.reasons.listed[code].resolvable:
            self._untried[row] = None
        else:
            self._refused[row] = NOT_HELPFUL

    def _try(self, row: int) -> None:
        del self._untried[row]
        candidate = _candidate(self.scan, row, self.budgets)
        if candidate is None:
            self._refused[row] = NO_VICTIMS
        else:
            self.candidates[row] = candidate

    def refusals(self, nodes: int) -> str:
        counts: dict[str, int] = {}
        for why in self._refused.values():
            counts[why] = counts.get(why, 0) + 1
        listed = ", ".join(sorted(f"{count} {why}" for why, count in counts.items()))
        return f"preemption: 0/{nodes} nodes are available: {listed}."


def _not_eligible(pod: PodView, table: NodeTable, world: PlacementContext) -> Preemption | None:
    if not pod.shape.preempts:
        return _ineligible("preemptionPolicy=Never")
    if not world.policy.preemption:
        return _ineligible(f"policy {world.policy.name}")
    row = table.row_of.get(pod.nominated)
    leaving = row is not None and any(
        placed.view.deleting and placed.view.priority < pod.priority for placed in table.pods_on[row].values()
    )
    why = f"terminating pods on the nominated node {pod.nominated}"
    return _ineligible(why, leaving=True) if leaving else None


def _ineligible(why: str, *, leaving: bool = False) -> Preemption:
    return Preemption(None, message=f"preemption: not eligible due to {why}.", leaving=leaving)


def _candidate(scan: ShapeScan, row: int, budgets: Iterable[DisruptionBudget]) -> _Candidate | None:
    """The victims on this node. None: it has none, or evicting all of them is not enough."""
    table = scan.table
    lower = [placed for placed in table.pods_on[row].values() if placed.view.priority < scan.shape.priority]
    if not lower:
        return None
    lower.sort(key=_importance)
    lifted = [table.lift(placed.view.uid) for placed in lower]
    if not scan.fits_now(row):
        for placed in lifted:
            table.put_back(placed)
        return None
    breaks = _broken(lower, budgets)
    victims = _victims(scan, row, lower, breaks)
    for placed in victims:
        table.put_back(placed)
    return _weighed(row, victims, breaks)


def _victims(scan: ShapeScan, row: int, lower: list[CountedPod], breaks: dict[str, str]) -> list[CountedPod]:
    """Put back the pods that can stay: first those whose eviction would break a budget, the most important
    first. The others stay lifted, and are returned."""
    victims = []
    for placed in sorted(lower, key=lambda placed: not breaks[placed.view.uid]):
        scan.table.put_back(placed)
        if not scan.fits_now(row):
            scan.table.lift(placed.view.uid)
            victims.append(placed)
    return victims


def _importance(placed: CountedPod) -> tuple[int, int, str]:
    """Sorts the most important first: by priority, then the longest running."""
    return (-placed.view.priority, _began(placed.view), placed.view.uid)


def _began(pod: PodView) -> int:
    """The start time. A pod that has not started counts as started now, after all others."""
    return pod.started_ns or NOT_YET


def _broken(pods: list[CountedPod], budgets: Iterable[DisruptionBudget]) -> dict[str, str]:
    """Uid -> the budget that allows no more disruptions when the pod's turn comes, or ''."""
    remaining = {budget.key: budget.allowed for budget in budgets}
    listed = list(budgets)
    broken: dict[str, str] = {}
    for placed in pods:
        broken[placed.view.uid] = ""
        for budget in listed:
            if budget.covers(placed.view):
                remaining[budget.key] -= 1
                if remaining[budget.key] < 0:
                    broken[placed.view.uid] = "/".join(budget.key)
    return broken


def _weighed(row: int, victims: list[CountedPod], breaks: dict[str, str]) -> _Candidate:
    views = sorted((placed.view for placed in victims), key=lambda view: (-view.priority, view.uid))
    highest = views[0].priority if views else -PRIORITY_OFFSET
    # Of equal harm, the node with the youngest victims: by the first started of each node's most important.
    began = min((_began(view) for view in views if view.priority == highest), default=0)
    harm = (
        sum(bool(breaks[view.uid]) for view in views),
        highest,
        sum(view.priority + PRIORITY_OFFSET for view in views),
        len(views),
        -began,
    )
    return _Candidate(row, tuple(views), tuple(breaks[view.uid] for view in views), harm)


def _preemption(pod: PodView, best: _Candidate, table: NodeTable, candidates: int) -> Preemption:
    node = table.names[best.row]
    for_whom = f"{pod.key.namespace}/{pod.key.name} (priority {pod.priority})"
    victims = tuple(
        Victim(
            view.key,
            view.uid,
            view.priority,
            broken,
            f"preempted on {node} to make room for {for_whom}"
            + (f"; breaks PodDisruptionBudget {broken}" if broken else ""),
        )
        for view, broken in zip(best.victims, best.breaks, strict=True)
    )
    return Preemption(node, victims, candidates=candidates)


def _consulted(best: _Candidate, search: _CandidateSearch) -> tuple[ConsultedBudget, ...]:
    """The decisive ones first."""
    least = min(search.candidates.values(), key=lambda candidate: (candidate.harm[1:], candidate.row))
    spared = frozenset(least.breaks) if least.row != best.row else frozenset()
    consulted = [
        ConsultedBudget(budget.key, "/".join(budget.key) in spared)
        for budget in search.budgets
        if "/".join(budget.key) in spared or any(budget.covers(view) for view in best.victims)
    ]
    return tuple(sorted(consulted, key=lambda budget: not budget.decisive)[:BUDGETS_MAX])
