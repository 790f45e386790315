"""At rest all is looked at again: a controller that nobody woke is named, one that was woken is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.sim.small import story, told

from fathom.control.watches import POD, REPLICA_SET, Primary, Related
from fathom.controllers.adoption import FOR_CHILDREN
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.resources import PODS, REPLICA_SETS
from fathom.sim.checkers.unwoken import NothingIsLeftToDo
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.invariants import Checker
from fathom.sim.world.world import World


class Unwoken(ReplicaSets):
    """Pods that come and go wake nobody."""

    watches = (Primary(REPLICA_SET), Related(POD, indexes=FOR_CHILDREN))


def checkers() -> Sequence[Checker]:
    return [NothingIsLeftToDo()]


@pytest.mark.parametrize("controller", [ReplicaSets, Unwoken])
def test_who_should_have_been_woken_is_named(controller: type[ReplicaSets]) -> None:
    async def a_pod_is_deleted(world: World) -> None:
        run_controllers(world, "controllers", controller)
        await world.apply(REPLICA_SETS, replica_set("web", 2))
        await world.sleep(5)
        pods = world.list("pods")
        assert len(pods) == 2
        meta = pods[0]["metadata"]
        await world.api.delete(PODS, "default", meta["name"], uid=meta["uid"], grace_s=0)
        await world.settle()

    violation = told(story(a_pod_is_deleted, checkers=checkers, processes=("controllers",))).violation
    if controller is ReplicaSets:
        assert violation is None
    else:
        assert violation is not None
        assert violation.message.startswith("controllers had yet to write ")
