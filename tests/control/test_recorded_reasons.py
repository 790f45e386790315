"""Decisions to do nothing: on record when their reason changes, with what they were decided by."""

from __future__ import annotations

import pytest
from tests.control.greetings import MAPS, hosted, hosting
from tests.control.worlds import told
from tests.controllers.test_pauses import OVERRIDES, override

from fathom.control.kit import Kit
from fathom.control.plan import Plan
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.recorded_reasons import RecordedReasons
from fathom.control.watches import CONFIG_MAP, Primary
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.decision import Considered, Decision
from fathom.model.objects import Key, metadata
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.scenarios.staff import run_managers_and_agents
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.world import World


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2 of 3 pods", "3 of 3 pods"),
        ("cpu 45% of 60%; held at 3", "cpu 7% of 60%; held at 3"),
        (
            "it should have been gone by 2026-01-01T00:00:00Z",
            "it should have been gone by 2026-02-03T10:00:00Z",
        ),
    ],
)
def test_another_number_is_no_other_reason(before: str, after: str) -> None:
    reasons = RecordedReasons()
    assert reasons.changes("a", before)
    assert not reasons.changes("a", after)


@pytest.mark.parametrize(
    ("before", "after"), [("node node-1", "node node-2"), ("paused by v4", "paused by v5")]
)
def test_a_number_in_a_name_is_another_reason(before: str, after: str) -> None:
    reasons = RecordedReasons()
    assert reasons.changes("a", before)
    assert reasons.changes("a", after)


def test_reasons_of_different_owners_are_apart_and_a_forgotten_one_is_new() -> None:
    reasons = RecordedReasons()
    assert reasons.changes("a", "it waits")
    assert reasons.changes("b", "it waits")
    reasons.forget("a")
    assert reasons.changes("a", "it waits")
    assert not reasons.changes("b", "it waits")


def test_the_memory_of_reasons_is_bounded_and_loses_the_oldest() -> None:
    reasons = RecordedReasons(owners_max=2)
    for owner in ("a", "b", "c"):
        reasons.changes(owner, "it waits")
    assert len(reasons) == 2
    assert not reasons.changes("c", "it waits")
    assert reasons.changes("a", "it waits")


class Waiter:
    """Does nothing, and says what it waits for."""

    name = "waiter"
    watches = (Primary(CONFIG_MAP, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        config = view.get("ConfigMap", key)
        wanted = (config or {}).get("data") or {}
        plan = Plan(why=f"it waits for {wanted.get('for', 'nobody')}")
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


def test_a_pass_that_does_nothing_is_recorded_when_its_reason_changes() -> None:
    async def story(world: World) -> None:
        world.process("kit", hosting(Waiter))
        stored = {}
        for number, person in enumerate(("ann", "ann", "ann", "bob", "bob", "ann")):
            data = {"for": person, "number": str(number)}
            stored = await world.apply(MAPS, {"metadata": {"name": "m"}, "data": data})
            await world.sleep(1)
        recorded = [decision for decision in hosted(world).journal.decisions if decision.subject.name == "m"]
        assert [(decision.verdict, decision.message) for decision in recorded] == [
            ("nothing", "it waits for ann"),
            ("nothing", "it waits for bob"),
            ("nothing", "it waits for ann"),
        ]
        last = recorded[-1]
        revision = int(metadata(stored)["resourceVersion"])
        assert last.subject.uid == metadata(stored)["uid"]
        assert (last.cause.resource, last.cause.name, last.cause.revision) == ("configmaps", "m", revision)
        assert max(last.seen["ConfigMap"].revision, last.seen["ConfigMap"].applied) >= revision
        assert hosted(world).journal.outcomes == [], "nothing was sent, so nothing came of it"

    told(story)


def about_web(world: World) -> list[Decision]:
    made = hosted(world).journal.decisions
    return [decision for decision in made if decision.subject.resource == DEPLOYMENTS.name]


def test_a_paused_rollout_is_recorded_once_with_the_override_that_pauses_it() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, ReplicaSets)
        world.process("kit", hosting(Deployments))
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await world.sleep(5)
        calm = override("calm", pauseRollout=True)
        stored = await world.apply(
            OVERRIDES, {**calm, "metadata": {"name": "calm", "namespace": "default"}, "status": {}}
        )
        await world.sleep(1)
        await world.apply(DEPLOYMENTS, deployment("web", 2, tag=2))
        for number in range(5):  # Each change is a pass, and none has another reason.
            await world.sleep(2)
            changed = deployment("web", 2, tag=2)
            changed["metadata"]["annotations"] = {"touched": str(number)}
            await world.apply(DEPLOYMENTS, changed)
        await world.sleep(2)
        passes = [passed for passed in hosted(world).passes if passed.controller == "deployments"]
        assert len(passes) > 8
        message = "the rollout is paused by the override calm"
        recorded = [decision for decision in about_web(world) if decision.message == message]
        assert sum(decision.verdict == "nothing" for decision in recorded) <= 1
        assert len(recorded) < len(passes)
        (considered,) = recorded[-1].overrides
        meta = metadata(stored)
        assert considered == Considered(
            "calm", considered.revision, True, OVERRIDES.name, "default", meta["uid"], meta["generation"]
        )
        assert considered.revision >= int(meta["resourceVersion"])
        await world.sleep(25)
        assert len(world.list("replicasets.apps")) == 2, "it did not go on"
        last = about_web(world)[-1]
        assert last.overrides == (), "the override was over"

    told(story)
