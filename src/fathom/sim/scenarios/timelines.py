"""Pods wait for quota, are deleted and created again under the same names: timelines tell them apart."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Obj, is_deleting, key_of, uid_of
from fathom.model.resources import DEPLOYMENTS, PODS
from fathom.sim.checkers.timelines import TimelinesAreTrue
from fathom.sim.scenarios.real import DECIDERS, checkers, deployment, run_real_cluster, until_ready
from fathom.sim.scenarios.rollback import QUOTAS, quota
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NAME, REPLICAS = "risk-api", 3
QUIET_S = 90.0
KINDS = ("/pods", "/deployments", "/replicasets", "/tenantquotas", "/bindingbatches")


def compared() -> Sequence[Checker]:
    return [*checkers(), TimelinesAreTrue()]


@scenario(
    Menu(processes=DECIDERS, kinds=KINDS, seconds=40, most=4),
    checkers=compared,
    scale=6,
    chronicled=True,
)
async def names_are_used_again(world: World) -> None:
    """Pods are deleted and replaced under the same names while a quota makes some of them wait: no timeline
    has an edge between an object and its namesake's records."""
    run_real_cluster(world, events=True)
    await world.apply(QUOTAS, quota("10"))
    await world.apply(DEPLOYMENTS, deployment(NAME, REPLICAS))
    await until_ready(world, NAME, REPLICAS, within_s=300)
    for _ in range(world.scale):
        await world.sleep(4 * world.rng.random())
        await _disturb(world)
    await world.apply(QUOTAS, quota("10"))
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _disturb(world: World) -> None:
    """The quota changes, or a pod is deleted: its ReplicaSet creates another of the same name."""
    pods: list[Obj] = [pod for pod in world.list("pods", "default") if not is_deleting(pod)]
    if not pods or world.rng.random() < 0.4:
        await world.apply(QUOTAS, quota(world.rng.choice(("200m", "10"))))
        return
    pod = world.rng.choice(pods)
    await world.api.delete(PODS, *key_of(pod), uid=uid_of(pod), grace_s=0)


SCENARIOS: tuple[Scenario, ...] = (names_are_used_again,)
