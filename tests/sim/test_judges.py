"""Judges of what is reserved and of what budgets say are not silent, and not too strict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from fathom.model.objects import Key, Obj
from fathom.sim.checkers.reservations import WaitedForStaysReserved
from fathom.sim.checkers.truths import Truth, budgets
from fathom.sim.invariants import RESERVATIONS, Finding, Seen
from fathom.sim.world import World

# What is reserved.


def seen(resource: str, name: str, old: Obj | None, new: Obj | None) -> Seen:
    key = Key("default", name)
    return Seen(
        resource=resource, key=key, revision=1, old=old, new=new, at_s=0.0, by="repair", incarnation=1
    )


def pod(node: str = "", *, phase: str = "Pending") -> Obj:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": {"phase": phase}}


def reservation(phase: str, *, name: str = "r") -> Obj:
    meta = {"name": name, "annotations": {"fathom.dev/pod-uid": "u"}}
    spec = {"workload": {"name": "p", "uid": "u"}, "intent": "preempt"}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def released(*before: Seen, phase: str = "Released") -> object:
    """What is found wrong when it comes to this phase."""
    checker = WaitedForStaysReserved()
    for one in (*before, seen(RESERVATIONS, "r", None, reservation("Active"))):
        assert checker.commit(one) is None
    found = checker.commit(seen(RESERVATIONS, "r", reservation("Active"), reservation(phase)))
    return found.message if isinstance(found, Finding) else found


WAITS = seen("pods", "p", None, pod())


def test_a_reservation_that_is_released_while_its_pod_waits_is_found() -> None:
    assert released(WAITS) == "repair released r, and pods/default/p waits for its room"


@pytest.mark.parametrize(
    "then",
    [
        seen("pods", "p", pod(), pod("node-1")),
        seen("pods", "p", pod(), pod(phase="Failed")),
        seen("pods", "p", pod(), None),
        seen(RESERVATIONS, "twin", None, reservation("", name="twin")),
    ],
    ids=["bound", "ended", "gone", "twin"],
)
def test_one_that_nobody_waits_for_may_be_released(then: Seen) -> None:
    assert released(WAITS, then) is None


@pytest.mark.parametrize("phase", ["Expired", "Bound"])
def test_one_whose_time_is_over_or_has_come_is_not_released(phase: str) -> None:
    assert released(WAITS, phase=phase) is None


# What budgets say.


class Store:
    """As much of a world as is read."""

    def __init__(self, **objects: Sequence[Obj]) -> None:
        self._objects = {"pods": (), **objects}
        self.engine: Any = self
        self.processes: dict[str, object] = {}

    def list(self, resource: str, namespace: str = "") -> list[Obj]:
        return list(self._objects.get(resource.partition(".")[0], ()))


def owned(kind: str, uid: str, owner: str = "", **spec: object) -> Obj:
    references = [{"kind": "x", "name": owner, "uid": owner, "controller": True}] if owner else []
    meta = {"namespace": "default", "name": uid, "uid": uid, "ownerReferences": references}
    return {"kind": kind, "metadata": {**meta, "labels": {"app": "web"}}, "spec": spec}


def said(limit: Obj, **status: int) -> list[str]:
    """What is wrong with a budget that says this, of three of four pods that are ready."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    pods = [{**owned("Pod", f"p-{number}", "set"), "status": ready} for number in range(3)]
    budget = owned("PodDisruptionBudget", "b", selector={"matchLabels": {"app": "web"}}, **limit)
    budget["status"] = status
    world = Store(
        pods=[*pods, owned("Pod", "p-3", "set")],
        replicasets=[owned("ReplicaSet", "set", "whole", replicas=9)],
        deployments=[owned("Deployment", "whole", replicas=4)],
        poddisruptionbudgets=[budget],
    )
    return [wrong for _, _, wrong in budgets(Truth(cast(World, world)))]


@pytest.mark.parametrize(
    ("limit", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 1),
        ({"maxUnavailable": 1}, 3, 0),
        ({"maxUnavailable": "30%"}, 2, 1),
        ({"minAvailable": "30%"}, 2, 1),
    ],
)
def test_budgets_of_every_sort_are_counted_again(limit: Obj, desired: int, allowed: int) -> None:
    right = {"currentHealthy": 3, "desiredHealthy": desired, "expectedPods": 4, "disruptionsAllowed": allowed}
    assert said(limit, **right) == []
    assert said(limit, **{**right, "disruptionsAllowed": 2}) == [
        f"disruptionsAllowed is said to be 2, it is {allowed}"
    ]
