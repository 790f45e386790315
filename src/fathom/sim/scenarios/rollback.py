"""A rollback while everything else is under way: repair, a changing quota, leaders that crash."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.client.api import Resource
from fathom.model.objects import Obj, lookup
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.checkers.rollouts import MinimumAvailable, OneRevisionPerTemplate
from fathom.sim.scenarios.failures import RESERVATIONS, reservation
from fathom.sim.scenarios.real import (
    DECIDERS,
    MANAGERS,
    checkers,
    deployment,
    ready_pods,
    run_real_cluster,
    until_ready,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

QUOTAS = Resource("fathom.dev", "v1alpha1", "tenantquotas", namespaced=False)
SIMULATED = "fathom.dev/simulated"
NAME, REPLICAS = "risk-api", 4
QUIET_S = 90.0
KINDS = ("/pods", "/deployments", "/replicasets", "/reservations", "/tenantquotas", "/bindingbatches")


def bounded() -> Sequence[Checker]:
    return [*checkers(), MinimumAvailable(MANAGERS), OneRevisionPerTemplate()]


@scenario(
    Menu(processes=DECIDERS, kinds=KINDS, seconds=90, most=6),
    checkers=bounded,
    scale=6,
)
async def rollback_among_others(world: World) -> None:
    """Version 5 never becomes ready and is rolled back while repair releases leaked reservations and the
    quota changes: the healthy pods of version 4 stay, and in the end no pod of version 5 and no leaked
    reservation is left."""
    run_real_cluster(world)
    await world.apply(QUOTAS, quota("10"))
    await world.apply(DEPLOYMENTS, version(4))
    await until_ready(world, NAME, REPLICAS, within_s=300)
    await world.apply(DEPLOYMENTS, version(5))
    back_at = world.rng.randrange(world.scale)
    for step in range(world.scale):
        await world.sleep(6 * world.rng.random())
        if step == back_at:
            await world.apply(DEPLOYMENTS, version(4))
        await disturb(world, step)
    await world.apply(DEPLOYMENTS, version(4))
    await world.apply(QUOTAS, quota("10"))
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    images = {str(lookup(pod, "spec", "containers")[0]["image"]) for pod in ready_pods(world, NAME)}
    assert images == {f"{NAME}:4"}, f"ready pods run {images}"
    await world.until(
        lambda: not world.list(RESERVATIONS.name), within_s=180, what="the leaked reservations are released"
    )


async def disturb(world: World, step: int) -> None:
    """A reservation of an unknown pod leaks; or the quota allows less, or more again."""
    if world.rng.random() < 0.5:
        leaked = reservation(f"leaked-{step}", pod=f"{NAME}-gone-{step}", uid=f"gone-{step}")
        await world.api.create(RESERVATIONS, "default", leaked)  # Refused when the quota has no room.
    else:
        await world.apply(QUOTAS, quota(world.rng.choice(("400m", "500m", "10"))))


def version(number: int) -> Obj:
    """Only version 5 is broken. The others say so too: a merge patch would keep its annotation."""
    workload = deployment(NAME, REPLICAS, tag=number)
    note = '{"fail": "readiness"}' if number == 5 else "{}"
    workload["spec"]["template"]["metadata"]["annotations"] = {SIMULATED: note}
    return workload


def quota(cpu: str) -> Obj:
    limits = [{"resources": {"cpu": cpu}}]
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "TenantQuota",
        "metadata": {"name": "default"},
        "spec": {"limits": limits},
    }


SCENARIOS: tuple[Scenario, ...] = (rollback_among_others,)
