"""The fields that controllers declare to read are all that they decide from.

The same run twice: in the second, a controller's snapshots have nothing of an object but its identity and the
declared fields. If one decision differs, a field that matters is not declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fathom.cache.snapshot import Snapshot
from fathom.explain.coupling.actors import CONTROLLERS
from fathom.model.fields import EVERYTHING, steps_of
from fathom.model.objects import Obj
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.report.live_records import recorded_decisions
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.scenario import ScenarioRun, plan_of, sweep

IDENTITY = (
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
)
FIELDS = {
    controller.name: {read.kind: read.fields for read in controller.reads if read.source == "cache"}
    for controller in CONTROLLERS
}
# Between them: rollouts, autoscaling, quotas, policies, nodes that die, budgets, endpoints, jobs, repair.
STORIES = (
    "rollback-among-others",
    "driven-away",
    "jobs-seen-late",
)
LONG_STORIES = (
    "a-node-dies",
    "a-persons-decision",
    "drains",
    "gray-nodes",
    "pending-after-rollback",
    "reservations",
)

Decided = tuple[str, str, str, tuple[str, ...], str]


def cut(obj: Obj, prefixes: Iterable[str]) -> Obj:
    """The object with these fields alone. Lists are whole."""
    kept: Obj = {}
    for prefix in prefixes:
        if prefix == EVERYTHING:
            return obj
        _copy(obj, kept, steps_of(prefix))
    return kept


def _copy(source: Any, into: Obj, steps: tuple[str, ...]) -> None:
    name, *rest = steps
    if not isinstance(source, dict) or name not in source:
        return
    if rest and isinstance(source[name], dict):
        _copy(source[name], into.setdefault(name, {}), tuple(rest))
    else:
        into[name] = source[name]


def pruned(method: Callable[..., Any]) -> Callable[..., Any]:
    def shown(snapshot: Snapshot, kind: str, *rest: Any) -> Any:
        answer = method(snapshot, kind, *rest)
        fields = FIELDS.get(snapshot._reader, {}).get(kind)
        if fields is None or answer is None:
            return answer
        prefixes = (*IDENTITY, *fields)
        return [cut(obj, prefixes) for obj in answer] if isinstance(answer, list) else cut(answer, prefixes)

    return shown


def decided(name: str) -> list[Decided]:
    chronicle = Chronicle()
    ScenarioRun(SCENARIOS[name], plan_of(SCENARIOS[name], "1"), chronicle=chronicle).run()
    sweep()
    return [
        (decision.controller, decision.verdict, decision.subject.name, decision.actions, decision.message)
        for decision in (record.kept.decision for record in recorded_decisions(chronicle))
    ]


def first_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Decided, Decided] | None:
    whole = decided(name)
    for method in ("get", "list", "by_index", "owned"):
        monkeypatch.setattr(Snapshot, method, pruned(getattr(Snapshot, method)))
    differing = (pair for pair in zip(whole, decided(name), strict=False) if pair[0] != pair[1])
    return next(differing, None)


@pytest.mark.parametrize(
    "name", [*STORIES, *(pytest.param(name, marks=pytest.mark.full) for name in LONG_STORIES)]
)
def test_controllers_decide_the_same_from_the_declared_fields_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_difference(name, monkeypatch) is None


def test_a_field_that_is_read_but_not_declared_changes_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIELDS["replicasets"], "Pod", ("metadata",))
    assert first_difference("rollback-among-others", monkeypatch) is not None
