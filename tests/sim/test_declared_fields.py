"""The fields that controllers declare to read are all that they decide from.

In the simulator a controller's snapshots have nothing of an object but its identity and the declared fields:
in every scenario. Here some are run again with whole objects. If one decision differs, a field that matters
is not declared.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.sim.small import passes, story

from fathom.cache.snapshot import Snapshot
from fathom.client.api import Resource
from fathom.control.declared_fields import DeclaredFields, part_of, tree_of
from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import POD, Primary, Watch
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.declared import Reads
from fathom.model.objects import Key, Obj
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.report.live_records import recorded_decisions
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.scenario import ScenarioRun, plan_of, sweep
from fathom.sim.world.world import World

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


def decided(name: str) -> list[Decided]:
    chronicle = Chronicle()
    ScenarioRun(SCENARIOS[name], plan_of(SCENARIOS[name], "1"), chronicle=chronicle).run()
    sweep()
    return [
        (decision.controller, decision.verdict, decision.subject.name, decision.actions, decision.message)
        for decision in (record.kept.decision for record in recorded_decisions(chronicle))
    ]


def whole(declared: DeclaredFields, snapshot: Snapshot) -> Snapshot:
    return snapshot


def first_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Decided, Decided] | None:
    from_parts = decided(name)
    monkeypatch.setattr(DeclaredFields, "shown", whole)
    differing = (pair for pair in zip(decided(name), from_parts, strict=False) if pair[0] != pair[1])
    return next(differing, None)


@pytest.mark.parametrize(
    "name", [*STORIES, *(pytest.param(name, marks=pytest.mark.full) for name in LONG_STORIES)]
)
def test_controllers_decide_the_same_from_the_declared_fields_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_difference(name, monkeypatch) is None


def test_a_field_that_is_read_but_not_declared_changes_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = tuple(Reads("Pod", ("metadata",)) if read.kind == "Pod" else read for read in ReplicaSets.reads)
    monkeypatch.setattr(ReplicaSets, "reads", reads)
    assert first_difference("rollback-among-others", monkeypatch) is not None


PODS = Resource("", "v1", "pods")


class Curious:
    """Declares to read the labels of pods, and looks at all of them."""

    name = "curious"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(POD, conditions=False),)
    reads: ClassVar[tuple[Reads, ...]] = (Reads("Pod", ("metadata.labels",)),)
    seen: ClassVar[list[Obj]] = []

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        pod = self._kit.snapshot().get("Pod", key)
        if pod is not None:
            type(self).seen.append(pod)
        return ReconcileResult.never()


def test_a_controller_in_the_simulator_sees_only_the_fields_that_it_declares() -> None:
    Curious.seen.clear()

    async def tale(world: World) -> None:
        run_controllers(world, "controllers", Curious)
        spec = {"containers": [{"name": "main", "image": "main:1"}]}
        await world.apply(PODS, {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec})
        await world.until(lambda: bool(Curious.seen), within_s=10, what="it looks")

    passes(story(tale, processes=("controllers",)))
    (pod, *_) = Curious.seen
    assert "spec" not in pod
    identity = {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"}
    assert set(pod["metadata"]) == {*identity, "labels"}


def test_a_part_of_an_object_has_the_declared_fields_and_whole_lists() -> None:
    obj: Obj = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"list": [{"n": 1}], "other": 2}}
    assert part_of(obj, tree_of(("metadata.name", "spec.list", "status.none"))) == {
        "metadata": {"name": "a"},
        "spec": {"list": [{"n": 1}]},
    }
    assert part_of(obj, tree_of(("*",))) is obj


def test_a_field_that_is_declared_whole_has_all_its_parts() -> None:
    obj: Obj = {"spec": {"a": {"b": 1, "c": 2}}, "status": None}
    whole_last = part_of(obj, tree_of(("spec.a.b", "spec.a", "status.phase")))
    whole_first = part_of(obj, tree_of(("spec.a", "spec.a.b", "status.phase")))
    assert whole_last == whole_first == obj
