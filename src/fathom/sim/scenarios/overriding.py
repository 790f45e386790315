"""Overrides come, expire and are deleted, while schedulers receive events late and clocks are wrong: what an
override allows ends with it, and so does what it forbids."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.client.api import Resource
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.resources import NODES, PODS
from fathom.sim.checkers.override_effects import LATE_S
from fathom.sim.checkers.overrides import of_overrides
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.scheduling import LEASE, SCHEDULERS, delete_some, node, pod, run_scheduler
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT, OF_WATCHES, QUIET_S, TIMING, all_but
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
CAPACITY_CLASSES = Resource("fathom.dev", "v1alpha1", "capacityclasses", namespaced=False)
KINDS = ("/pods", "/scheduleroverrides", "bindingbatches")
OPEN, SET_ASIDE = "node-1", "node-2"
ZONE_OF_OPEN = "zone-a"
LASTS_S_MAX = 14
USED = "fathom.dev/overrides"


class OverridesEnd(Checker):
    """Computes for itself, on its own clock, when an override ends."""

    name = "no placement by an override that has ended"

    def __init__(self) -> None:
        self._ends_s: dict[str, float] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == OVERRIDES.name:
            name = "/".join(change.key)
            lasts = str(lookup(change.new, "spec", "expiresAfter") or "0s")
            if change.new is None:
                self._ends_s[name] = change.at_s
            elif change.old is None:
                self._ends_s[name] = change.at_s + float(lasts.removesuffix("s"))
            return None
        return self._bound(change) if change.resource == "pods" else None

    def _bound(self, change: Seen) -> Found:
        where = lookup(change.new, "spec", "nodeName")
        if where != SET_ASIDE or lookup(change.old, "spec", "nodeName"):
            return None
        used = str((metadata(change.new or {}).get("annotations") or {}).get(USED) or "")
        names = [entry.partition("@")[0] for entry in used.split(",") if entry]
        if any(change.at_s <= self._ends_s.get(name, 0.0) + LATE_S for name in names):
            return None
        return f"{change.key.name} was bound to {where}, which is reserved, by {used or 'no override'}"


def checkers() -> Sequence[Checker]:
    return [*scheduling.checkers(), OverridesEnd(), *of_overrides()]


@scenario(
    Menu(
        processes=SCHEDULERS,
        kinds=KINDS,
        seconds=25,
        most=8,
        without=all_but(*OF_WATCHES, "lose-reply", "crash", "crash-at-write", "stop", "pause", "skew"),
    ),
    checkers=checkers,
    scale=20,
)
async def overrides_end(world: World) -> None:
    """Overrides let pods onto reserved nodes, or keep them away from others: each acts for as long as it
    lasts, and not longer."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SharedAgent)
    await world.apply(NODES, node(OPEN, zone=ZONE_OF_OPEN, more={"cpu": "64"}))
    aside = node(SET_ASIDE, zone="zone-b", more={"cpu": "64"})
    aside["metadata"]["labels"]["pool"] = "gold"
    await world.apply(NODES, aside)
    await world.apply(
        CAPACITY_CLASSES, _own("CapacityClass", "gold", {"nodeSelector": {"pool": "gold"}, "tenants": []})
    )
    for number in range(world.scale):
        await world.sleep(1.5 * world.rng.random())
        await _change(world, number)
    await world.sleep(LASTS_S_MAX)
    await world.heal_and_settle(quiet_s=QUIET_S)
    waiting = [metadata(obj)["name"] for obj in world.list("pods") if not lookup(obj, "spec", "nodeName")]
    kept = [name for name in waiting if str(name).startswith("kept-away")]
    assert not kept, f"{kept} wait although the overrides that kept them away have ended"


async def _change(world: World, number: int) -> None:
    action = world.rng.choice(("kept-away", "kept-away", "let-in", "let-in", "late", "delete", "take-back"))
    name, lasts_s = f"{action}-{number}", world.rng.randrange(1, LASTS_S_MAX)
    if action == "delete":
        await delete_some(world)
    elif action == "take-back":
        await _delete_override(world)
    elif action == "kept-away":
        await world.apply(OVERRIDES, override(name, {"avoidZones": [ZONE_OF_OPEN]}, lasts_s=lasts_s))
        await world.apply(PODS, pod(name))
    else:
        await world.apply(OVERRIDES, override(name, {"allowReservedCapacityClass": "gold"}, lasts_s=lasts_s))
        if action == "late":  # It has expired, or nearly so, when its pod comes.
            await world.sleep(lasts_s * (0.5 + world.rng.random()))
        await world.apply(PODS, golden(name))


async def _delete_override(world: World) -> None:
    overrides = world.list(OVERRIDES.name, "default")
    if overrides:
        chosen = metadata(world.rng.choice(overrides))
        await world.api.delete(OVERRIDES, "default", chosen["name"], uid=chosen["uid"])


def override(name: str, changes: Obj, *, lasts_s: int) -> Obj:
    """Of a pod without an owner, which is its own workload."""
    spec = {
        "target": f"workload/{name}",
        "scope": "cluster",
        "reason": "a test",
        "expiresAfter": f"{lasts_s}s",
        "changes": changes,
    }
    return _own("SchedulerOverride", name, spec)


def golden(name: str) -> Obj:
    obj = pod(name)
    obj["metadata"]["annotations"] = {"fathom.dev/capacity-class": "gold"}
    return obj


def _own(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


SCENARIOS: tuple[Scenario, ...] = (overrides_end,)
