"""Placed: the pod runs as wanted. Why here, and why not there: the points of the best nodes, by rule.

The recorded decision says what counted then; the decider, asked again as if the pod had no node yet, says
what would count now.
"""

from __future__ import annotations

import msgspec
import numpy as np

from fathom.controllers.progress.crash_loops import crash_loop
from fathom.explain.why.answer import DetailGroup, Explanation, NodeRow, Now
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PodCase
from fathom.explain.why.other_scheduler import context_of, not_known, other_scheduler, placed_text
from fathom.explain.why.records import groups_of
from fathom.explain.why.troubles import trouble_of
from fathom.explain.why.unschedulable import ranked_rows
from fathom.model.decision import Decision
from fathom.model.objects import metadata
from fathom.model.times import SECOND_NS
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.rules import Rules, Score, SoftScore
from fathom.schedule.decide.shape_scan import ShapeScan

STAGE = "placed"
BEST_SHOWN = 5  # Nodes whose points are listed rule by rule.


def explain(case: PodCase, *, brief: bool = False) -> Explanation:
    """`brief`: without the points of the nodes, for whoever asks about many pods."""
    loop = crash_loop(case.pod, now_s=case.evidence.now_ns / SECOND_NS)
    if loop is not None:
        return _crashing(case)
    decision = case.last.kept.decision if case.last is not None else None
    here = decision if decision is not None and decision.node == case.node else None
    rows, details, now = ((), (), None) if brief else _again(case)
    who = "" if brief else other_scheduler(case)
    if who:
        return answer(
            case, STAGE, "is ready", placed_text(case, who, now), as_wanted=True,
            nodes=rows, details=(*details, not_known(who)), now=now,
        )  # fmt: skip
    recorded = (case.last.nodes if case.last is not None else None) or {}
    return answer(
        case, STAGE, "is ready", _why_here(case, here), as_wanted=True,
        nodes=rows, details=details, now=now, groups=groups_of(recorded, recorded=True),
    )  # fmt: skip


def _crashing(case: PodCase) -> Explanation:
    """It is ready for the moment, between two crashes."""
    ended = [container for container in case.containers if container.ended]
    worst = max(ended, key=lambda container: int(container.status.get("restartCount") or 0))
    stopped = {**worst.status, "state": {}, "ready": False, "lastState": {"terminated": worst.ended}}
    trouble = trouble_of(msgspec.structs.replace(worst, status=stopped), case)
    cause = trouble.cause if trouble is not None else f"container {worst.name} ends again and again"
    return answer(
        case, "not-ready", "is ready for the moment and keeps ending", cause,
        change=trouble.change if trouble is not None else None,
        next_trigger="it has run for as long as its back-off lasts",
    )  # fmt: skip


def _why_here(case: PodCase, decision: Decision | None) -> str:
    if decision is None:
        return f"it runs on {case.node}; {_unrecorded(case)}"
    score = decision.scores.get(case.node)
    fitting = decision.nodes - sum(decision.filters.values())
    of = f"the best of {fitting} nodes that fit" if fitting != 1 else "the only node that fits"
    points = f", with {score} points" if score is not None else ""
    equals = [node for node in decision.scores if node != case.node and decision.scores[node] == score]
    tied = f"; {', '.join(equals)} had as many" if equals else ""
    return f"it runs on {case.node}, {of}{points}{tied}"


def _unrecorded(case: PodCase) -> str:
    """A pod that was replaced from its own document brings its node and its predecessor's decision along."""
    id_ = str((metadata(case.pod).get("annotations") or {}).get(DECISION_ANNOTATION) or "")
    if not id_:
        return "no decision on record placed it"
    if any(recorded.kept.decision.id == id_ for recorded in case.evidence.decisions):
        return f"it was created with this node, copied from the pod that decision {id_} placed"
    return f"decision {id_} placed it, and no journal that answers has it"


# Asked again.


def _again(case: PodCase) -> tuple[tuple[NodeRow, ...], tuple[DetailGroup, ...], Now | None]:
    """The nodes as the decider ranks them now, as if the pod had none."""
    table = case.cluster.table
    if case.node not in table.row_of or case.view.uid not in table.placed:
        return (), (), None
    view = msgspec.structs.replace(case.view, node="")
    placed = table.lift(view.uid)
    try:
        context = context_of(case, view)
        scan = ShapeScan(view.shape, table, context, case.cluster.decider.rules)
        rows = ranked_rows(scan)
        best = [row.node for row in rows if row.fits][:BEST_SHOWN]
        if case.node not in best:
            best.append(case.node)
        parts = _by_rule(scan, context, best)
    finally:
        table.put_back(placed)
    return rows, (DetailGroup("points now, by rule", parts),) if parts else (), _now(case, rows)


def _by_rule(scan: ShapeScan, context: PlacementContext, names: list[str]) -> tuple[str, ...]:
    """'node-1: LeastAllocated 80, PodTopologySpread 200'. Rules that give all nodes the same are left out."""
    table, points = scan.table, {}
    for score in scan.rules.scores:
        totals = _alone(scan, context, score)
        each = {name: int(totals[table.row_of[name]]) for name in names}
        if len(set(each.values())) > 1:
            points[score.name] = each
    return tuple(
        f"{name}: " + ", ".join(f"{rule} {each[name]}" for rule, each in points.items())
        for name in names
        if points
    )


def _alone(scan: ShapeScan, context: PlacementContext, score: Score | SoftScore) -> np.ndarray:
    rules = Rules(scan.rules.filters, (score,))
    return ShapeScan(scan.shape, scan.table, context, rules).totals()


def _now(case: PodCase, rows: tuple[NodeRow, ...]) -> Now:
    best = next((row for row in rows if row.fits), None)
    if best is None:
        return Now(True, "no node would take it")
    here = next((row for row in rows if row.node == case.node and row.fits), None)
    if here is None:
        return Now(True, f"it would go to {best.node}", best.node)
    if here.score == best.score:
        return Now(False, f"it would stay on {case.node}", case.node)
    return Now(
        True,
        f"it would go to {best.node}, with {best.score} points over {here.score} of {case.node}",
        best.node,
    )
