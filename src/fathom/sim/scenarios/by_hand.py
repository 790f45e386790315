"""The risky manual response of the lesson on human overrides: somebody repairs by hand what four controllers
keep as it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from fathom.client.api import Api
from fathom.explain.coupling.recreations import SAME_NAME, SAME_OWNER
from fathom.model.errors import ApiError
from fathom.model.objects import Key, key_of, lookup, uid_of
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, NODES, PODS
from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.checkers.fights import FightsAreWatched
from fathom.sim.scenarios import steering
from fathom.sim.scenarios.fights import condition, named
from fathom.sim.scenarios.people import bind_role
from fathom.sim.scenarios.recovering import (
    MOST,
    NAME,
    RECOVERY,
    REGION,
    REPLICAS,
    STALE,
    WORKLOAD,
    place,
    pods_left,
    pods_lent,
    recovery_class,
)
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.scenarios.steering import (
    CAPACITY_CLASSES,
    OVERRIDES,
    busy_autoscaler,
    end_override,
    is_proven,
    override,
    ready_pods,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.scenarios.workloads import LoadedAutoscalers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

JANE, BY_HAND = "jane", 9
LENT = 2
NAMED_WITHIN_S, OVER_WITHIN_S = 240.0, 180.0
HASTE_S = (4.0, 9.0)  # How often she tries again.


def checkers() -> Sequence[Checker]:
    return [*steering.checkers(), FightsAreWatched()]


class HastyPerson:
    """Does by hand what a controller undoes, again and again, with the rights of an administrator."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s

    def __call__(self, inside: Inside) -> None:
        api = Api(inside.seam, headers=(("user-agent", "kubectl"),))
        inside.domain.create_task(self._repair_for_ever(api), name=JANE)

    async def _repair_for_ever(self, api: Api) -> None:
        while True:
            with suppress(ApiError):  # She tries again.
                await self._repair(api)
            await asyncio.sleep(self._period_s)

    async def _repair(self, api: Api) -> None:
        """Delete pending replicas, increase the desired ones, remove finalizers, label nodes as eligible."""
        page = await api.list_page(PODS, "default", labelSelector=f"app={WORKLOAD}")
        waiting = [each for each in page.items if not lookup(each, "spec", "nodeName")]
        for each in waiting:
            await api.delete(PODS, "default", key_of(each).name, uid=uid_of(each))
        await api.patch(DEPLOYMENTS, "default", WORKLOAD, {"spec": {"replicas": BY_HAND}})
        await api.patch(OVERRIDES, "default", NAME, {"metadata": {"finalizers": None}})
        unmarked = {"fathom.dev/overrides": None, "fathom.dev/account": None}
        for each in page.items:
            await api.patch(PODS, "default", key_of(each).name, {"metadata": {"annotations": unmarked}})
        await api.patch(NODES, "", "node-b", {"metadata": {"labels": {"eligible": "yes"}}})


@scenario(Menu(processes=(JANE,), most=0), checkers=checkers, timed=True)
async def risky_manual_response(world: World) -> None:
    """Somebody deletes waiting replicas, scales by hand, removes finalizers and marks, and labels nodes
    against four controllers. The fights are named, with the person and the controllers; no edited finalizer
    or mark is taken for a finished cleanup; when the person stops, everything is as wanted."""
    run_cluster(world, LoadedAutoscalers)
    await _incident(world)
    await world.until(
        lambda: len(ready_pods(world, WORKLOAD)) == REPLICAS, within_s=60, what="four are ready"
    )
    lent = pods_lent(world)
    assert len(lent) == LENT, f"recovery capacity is used by {lent}"
    await bind_role(world, "cluster-admin", JANE, namespace="")
    world.process(JANE, HastyPerson(world.rng.uniform(*HASTE_S)), account=User(JANE))
    await _named(world, ("spec.replicas",), "controllers/autoscaling")
    await _named(world, (SAME_NAME, SAME_OWNER), "controllers/replicasets")
    await end_override(world, NAME)
    await world.until(
        lambda: pods_left(world) == lent, within_s=120, what=f"{lent} are named as what is left"
    )
    await world.sleep(30)
    assert pods_left(world) == lent, f"{pods_left(world)} is named as what is left; {lent} have lent capacity"
    assert not is_proven(status_of(world, NAME)), "an edited finalizer was taken for a finished cleanup"
    world.kill(JANE)
    await world.apply(CAPACITY_CLASSES, recovery_class("default"))
    await world.delete(PODS, "other")
    await world.until(
        lambda: world.get(OVERRIDES.name, Key("default", NAME)) is None,
        within_s=120,
        what="its end is proven",
    )
    await world.until(
        lambda: condition(world, "TwoWriters") == "False", within_s=OVER_WITHIN_S, what="the fights are over"
    )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert len(ready_pods(world, WORKLOAD)) == MOST, "not everything is as wanted"


async def _incident(world: World) -> None:
    """Four replicas of which two have lent capacity; the autoscaler wants two more, for which there is no
    room."""
    await place(world)
    changes = {"avoidZones": [STALE], "allowReservedCapacityClass": RECOVERY, "reservedReplicas": LENT}
    target, scope = f"workload/{WORKLOAD}", f"region/{REGION}"
    await world.apply(OVERRIDES, override(NAME, changes, target=target, lasts="30m", scope=scope))
    await world.apply(DEPLOYMENTS, workload(WORKLOAD, REPLICAS))
    await world.apply(AUTOSCALERS, busy_autoscaler(WORKLOAD, REPLICAS, MOST))


async def _named(world: World, fields: tuple[str, ...], controller: str) -> None:
    """An Event says that the person and the controller write against each other."""

    def told() -> list[str]:
        events = [named(world, "TwoWriters", field) for field in fields]
        return [str(event["message"]) for event in events if event is not None]

    await world.until(
        lambda: any(JANE in message and controller in message for message in told()),
        within_s=NAMED_WITHIN_S,
        what=f"the fight of {JANE} and {controller} over {' or '.join(fields)} is named",
    )


SCENARIOS: tuple[Scenario, ...] = (risky_manual_response,)
