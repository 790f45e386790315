"""Preemption and queue order where there is a choice: one case at a time, each with one right answer. The
scenario that runs them is in `waking`."""

from __future__ import annotations

from collections.abc import Callable

from fathom.model.objects import Key, Obj, is_deleting
from fathom.model.resources import BUDGETS, NODES, PODS
from fathom.sim.scenarios.scheduling import QUOTAS, own
from fathom.sim.scenarios.waitsfor import Step, comes, node_of, of_tenant, pod_of, waits_there
from fathom.sim.world.world import World

CHOSEN = "preemption takes the victims that cost least"
# The second one is younger, and would be evicted first if nothing else protected it.
ELDER, YOUNGER = "elder", "younger"
PRIORITIES = {"high": 1000, "patient": 900, "middle": 500}
Check = Callable[[World, str], str]


def classes() -> list[Obj]:
    """Pods of class `patient` wait for their turn and preempt nobody."""
    return [
        {
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "patient" else "PreemptLowerPriority",
        }
        for name, value in PRIORITIES.items()
    ]


def _filled_by_two(**younger: object) -> Step:
    """The node is full with two pods, of which evicting one is enough."""

    async def prepare(world: World, name: str) -> None:
        await world.apply(NODES, node_of(name))
        for role, more in ((ELDER, {}), (YOUNGER, younger)):
            pod = pod_of(f"{name}-{role}", "2", nodeName=name, nodeSelector={}, **more)
            pod["metadata"]["labels"] = {"who": f"{name}-{role}"}
            await world.apply(PODS, pod)
            await world.sleep(1.2)  # Start times are recorded in whole seconds.

    return prepare


async def _protected_by_budget(world: World, name: str) -> None:
    """The younger pod has a disruption budget whose status does not allow a disruption yet."""
    await _filled_by_two()(world, name)
    selector = {"matchLabels": {"who": f"{name}-{YOUNGER}"}}
    await world.apply(
        BUDGETS, {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}}
    )


async def _high_priority_pod_comes(world: World, name: str) -> None:
    await world.apply(PODS, pod_of(name, "2", priorityClassName="high"))


async def _two_waiting_pods(world: World, name: str) -> None:
    """One pod that came first and one of higher priority: there will be room for one."""
    await world.apply(NODES, node_of(name, unschedulable=True))
    await world.apply(PODS, pod_of(f"{name}-{ELDER}", "3", nodeSelector={"kubernetes.io/hostname": name}))
    await waits_there(world, pod_of(name, "3", priorityClassName="patient"))


def _zone_quota(name: str, zone: str) -> Obj:
    return own("TenantQuota", name, {"limits": [{"zone": zone, "resources": {"cpu": "0"}}]})


async def _quota_blocks_zone(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    await world.apply(QUOTAS, _zone_quota(name, f"zone-{name}"))
    await waits_there(world, of_tenant(pod_of(name), name))


async def _quota_moves_elsewhere(world: World, name: str) -> None:
    await world.apply(QUOTAS, _zone_quota(name, "elsewhere"))


def _only_victim_is(victim: str) -> Check:
    def check(world: World, name: str) -> str:
        gone = [role for role in (ELDER, YOUNGER) if _is_gone(world, f"{name}-{role}")]
        return (
            ""
            if gone == [victim]
            else f"{name}: evicted {', '.join(gone) or 'no pod'} instead of only {victim}"
        )

    return check


def _is_gone(world: World, name: str) -> bool:
    pod = world.get("pods", Key("default", name))
    return pod is None or is_deleting(pod)


CHOICES: dict[str, tuple[Step, Step]] = {
    "one-goes": (_filled_by_two(), _high_priority_pod_comes),
    "least-goes": (_filled_by_two(priorityClassName="middle"), _high_priority_pod_comes),
    "unprotected-goes": (_protected_by_budget, _high_priority_pod_comes),
    "important-first": (_two_waiting_pods, comes),
    "quota-moved": (_quota_blocks_zone, _quota_moves_elsewhere),
}
CHECKS: dict[str, Check] = {
    "one-goes": _only_victim_is(YOUNGER),
    "least-goes": _only_victim_is(ELDER),
    "unprotected-goes": _only_victim_is(ELDER),
}
