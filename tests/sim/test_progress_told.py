"""The judge of WorkloadProgresses, by hand: what can be so is left alone, what cannot is found."""

from __future__ import annotations

from typing import Any

from tests.sim.test_reports import BLIND

from fathom.model.objects import Key, Obj
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.sim.checkers.progress import ProgressIsOfItsGeneration
from fathom.sim.checkers.statuses import PROGRESS
from fathom.sim.checkers.workloads import PODS
from fathom.sim.world.invariants import Seen


def found(*steps: tuple[str, Obj]) -> Any:
    checker, known = ProgressIsOfItsGeneration(), dict[tuple[str, str], Obj]()
    for revision, (resource, new) in enumerate(steps, 1):
        place = resource, new["metadata"]["uid"]
        seen = Seen(
            resource, Key("default", "x"), revision, known.get(place), new, 1.0, "deciders", 1, ask=BLIND
        )
        wrong = checker.commit(seen)
        if wrong is not None:
            return wrong
        known[place] = new
    return None


def template(image: str) -> Obj:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def owner(kind: str, uid: str) -> list[Obj]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": uid, "uid": uid, "controller": True}]


def deployment(generation: int, image: str) -> tuple[str, Obj]:
    meta = {"uid": "web", "name": "web", "generation": generation}
    return DEPLOYMENTS, {"metadata": meta, "spec": {"template": template(image)}}


def replica_set(uid: str, image: str) -> tuple[str, Obj]:
    meta = {"uid": uid, "name": uid, "ownerReferences": owner("Deployment", "web")}
    return REPLICA_SETS, {"metadata": meta, "spec": {"template": template(image)}}


def pod(uid: str, of: str) -> tuple[str, Obj]:
    return PODS, {"metadata": {"uid": uid, "name": uid, "ownerReferences": owner("ReplicaSet", of)}}


def progress(generation: int, previous: int = 0, **counts: int) -> tuple[str, Obj]:
    status: Obj = {"current": {"generation": generation, **counts}}
    if previous:
        status["previous"] = {"generation": previous}
    workload = {"kind": "Deployment", "name": "web", "uid": "web"}
    return PROGRESS, {"metadata": {"uid": "p", "name": "p"}, "spec": {"workload": workload}, "status": status}


FIRST = (deployment(1, "a"), replica_set("old", "a"), pod("1", "old"), progress(1, admitted=1, queued=1))
SECOND = (deployment(2, "b"), replica_set("new", "b"))


def test_a_rollout_whose_pods_are_counted_apart_is_left_alone() -> None:
    assert found(*FIRST, *SECOND, progress(2, 1), pod("2", "new"), progress(2, 1, admitted=1)) is None


def test_pods_of_the_generation_before_that_are_counted_as_new_are_found() -> None:
    wrong = found(*FIRST, *SECOND, progress(2, 1, admitted=1))
    assert wrong == "it counts 1 pods of its generation, but 0 were created"


def test_a_generation_before_that_is_forgotten_is_found() -> None:
    wrong = found(*FIRST, *SECOND, progress(2))
    assert wrong == "generation 2 follows 1, but status.previous has none"


def test_more_at_a_stage_than_at_the_one_before_is_found() -> None:
    wrong = found(*FIRST, progress(1, admitted=1, queued=1, scheduled=1, bound=1, ready=1))
    assert wrong == "1 pods are ready, but only 0 are starting"
