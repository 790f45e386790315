"""Overrides forbid: whoever writes, and however old its view, no pod is put where one cordons, and no
workload grows whose expansion one pauses. And they forbid nothing outside their scope."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

import msgspec

from fathom.client.outcomes import Conflict, Rejected
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.resources import NODES, PODS, REPLICA_SETS
from fathom.model.times import SECOND_NS, duration_ns
from fathom.model.well_known import REGION_LABEL, ZONE_LABEL
from fathom.sim.checkers import at_home
from fathom.sim.checkers.override_effects import LATE_S
from fathom.sim.checkers.overrides import of_overrides
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.overriding import OVERRIDES
from fathom.sim.scenarios.scheduling import LEASE, SCHEDULERS, delete_some, node, pod, run_scheduler
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT, MANAGERS, OF_WATCHES, QUIET_S, TIMING, all_but, manage
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/scheduleroverrides", "/replicasets", "bindingbatches")
SYSTEM = "fathom-system"
NAMESPACES_OF = {"cordon": SYSTEM, "pauseExpansion": "default"}
# Node -> (zone, region): a zone that is in two regions shows whether a scope counts.
Places = Mapping[str, tuple[str, str]]
PLACES: Places = {"node-1": ("a", "west"), "node-2": ("a", "east"), "node-3": ("b", "west")}
SCOPES = ("cluster", "region/west", "region/east")
WEB = "web"
REPLICAS_MAX = 6
LASTS_S = (6, 20)
SEEN_S = 1.0  # Longer than a write takes from its check to the store.
IN_SCOPE = "an override forbids nothing outside its scope"
CORDONED_BY = re.compile(r"node (\S+): override \S+/(\S+) cordons it")


class _InForce(msgspec.Struct, frozen=True):
    change: str
    target: str
    scope: str
    ends_s: float

    def cordons(self, name: str, places: Places) -> bool:
        zone, region = places[name]
        return self.target == f"zone/{zone}" and self.scope in {"cluster", f"region/{region}"}


def _changed(spec: Obj) -> str:
    return str(next(iter(spec["changes"])))


class OverridesForbid(Checker):
    """Knows by itself which override is in force when: from its commit, for as long as it says."""

    name = "no write that an override forbids"

    def __init__(self, places: Places = PLACES) -> None:
        self._places = places
        self._in_force: dict[Key, _InForce] = {}
        self._pods: dict[Key, Obj] = {}
        self._sizes: dict[str, int] = {}  # ReplicaSet's UID -> replicas.
        self._since_s: dict[str, float] = {}  # Scope -> since when the workload has been in it.

    def commit(self, change: Seen) -> Found:
        violation = self._judged(change)
        inside = self._scopes()
        self._since_s = {scope: self._since_s.get(scope, change.at_s) for scope in inside}
        return violation

    def _judged(self, change: Seen) -> Found:
        match change.resource:
            case "scheduleroverrides.fathom.dev":
                self._ordered(change)
            case "replicasets.apps":
                return self._sized(change)
            case "pods":
                return self._placed(change)
        return None

    def _ordered(self, change: Seen) -> None:
        if change.new is None or is_deleting(change.new):
            self._in_force.pop(change.key, None)
        elif change.old is None:
            spec = change.new["spec"]
            ends_s = change.at_s + (duration_ns(str(spec["expiresAfter"])) or 0) / SECOND_NS - LATE_S
            named = _InForce(_changed(spec), spec["target"], spec["scope"], ends_s)
            self._in_force[change.key] = named

    def _sized(self, change: Seen) -> Found:
        if change.new is None:
            return None
        before = self._sizes.get(uid_of(change.new), 0)
        after = self._sizes[uid_of(change.new)] = int(lookup(change.new, "spec", "replicas") or 0)
        by = self._pauses(change.at_s) if after > before else None
        return None if by is None else f"{change.key.name} grew from {before} to {after} under {by}"

    def _placed(self, change: Seen) -> Found:
        old, violation = self._pods.pop(change.key, None), None
        if change.new is not None:
            violation = self._bound(change, old) or self._created(change, old)
            self._pods[change.key] = change.new
        return violation

    def _bound(self, change: Seen, old: Obj | None) -> Found:
        where = str(lookup(change.new, "spec", "nodeName") or "")
        if not where or lookup(old, "spec", "nodeName"):
            return None
        for key, override in self._in_force.items():
            in_force = override.change == "cordon" and change.at_s < override.ends_s
            if in_force and override.cordons(where, self._places):
                return f"{change.key.name} was put on {where}, which {'/'.join(key)} cordons"
        return None

    def _created(self, change: Seen, old: Obj | None) -> Found:
        owner = owner_uid(change.new or {})
        by = self._pauses(change.at_s) if old is None and owner else None
        if by is None or owner not in self._sizes:
            return None
        live = sum(_is_live(pod) and owner_uid(pod) == owner for pod in self._pods.values())
        wanted = self._sizes[owner]
        return f"{change.key.name} joins {live} live pods of {wanted} under {by}" if live >= wanted else None

    def _pauses(self, at_s: float) -> str | None:
        """The override that pauses the expansion of the only workload there is. Where that is, changes with
        its pods: a write may be judged before a pod comes into the scope."""
        for key, override in self._in_force.items():
            in_scope = override.scope == "cluster" or at_s - self._since_s.get(override.scope, at_s) > SEEN_S
            if override.change == "pauseExpansion" and in_scope and at_s < override.ends_s:
                return "/".join(key)
        return None

    def _scopes(self) -> list[str]:
        """The regions that the workload is in."""
        on = {str(lookup(pod, "spec", "nodeName") or "") for pod in self._pods.values() if owner_uid(pod)}
        names = [name for name in self._places if name in on] or list(self._places)
        return [f"region/{self._places[name][1]}" for name in names]


def _is_live(pod: Obj) -> bool:
    return not is_deleting(pod) and not is_terminal(pod)


def checkers() -> Sequence[Checker]:
    return [*at_home(), OverridesForbid(), *of_overrides()]


@scenario(
    Menu(
        processes=(*SCHEDULERS, *MANAGERS),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        seconds=40,
        most=6,
        without=all_but(*OF_WATCHES, "lose-reply", "crash", "crash-at-write", "skew"),
    ),
    servers=2,
    checkers=checkers,
    scale=30,
)
async def overrides_forbid(world: World) -> None:
    """Overrides cordon zones and pause the growth of a workload, each in its scope, while people who know
    nothing of them bind pods, create pods with a node, scale the workload and create pods for it."""
    for number, name in enumerate(SCHEDULERS, start=1):
        run_scheduler(world, name, server=number, lease=LEASE, timing=TIMING)
    manage(world, ReplicaSets, kinds=("/replicasets",), servers=2)
    run_controllers(world, AGENT, SharedAgent)
    for name, (zone, region) in PLACES.items():
        machine = node(name, more={"cpu": "64"})
        machine["metadata"]["labels"] |= {ZONE_LABEL: zone, REGION_LABEL: region}
        await world.apply(NODES, machine)
    await world.apply(REPLICA_SETS, _workload())
    orders: dict[str, Obj] = {}
    for number in range(world.scale):
        await world.sleep(world.rng.random())
        acts = (_act(world, f"x-{number}-{index}", orders) for index in range(world.rng.randrange(1, 4)))
        await asyncio.gather(*acts)  # At once: a write may be judged before an override, and committed after.
    await world.sleep(LASTS_S[1])
    await world.heal_and_settle(quiet_s=QUIET_S)


def _workload() -> Obj:
    template = {"metadata": {"labels": {"app": WEB}}, "spec": pod_spec(node="")}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": WEB}}, "template": template}
    return {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": WEB}, "spec": spec}


async def _act(world: World, name: str, orders: dict[str, Obj]) -> None:
    actions = ("cordon", "pause", "end", "bind", "bind", "named", "scale", "scale", "join", "join", "delete")
    action = world.rng.choice(actions)
    if action in {"cordon", "pause"}:
        await _order(world, name, action, orders)
    elif action == "end":
        await _end(world)
    elif action in {"bind", "named"}:
        await _put(world, name, action, orders)
    elif action == "scale":
        change = {"spec": {"replicas": world.rng.randrange(REPLICAS_MAX)}}
        await world.api.patch(REPLICA_SETS, "default", WEB, change)
    elif action == "join":
        await _join(world, name)
    else:
        await delete_some(world)


async def _order(world: World, name: str, action: str, orders: dict[str, Obj]) -> None:
    change = "cordon" if action == "cordon" else "pauseExpansion"
    orders[name] = {
        "target": world.rng.choice(("zone/a", "zone/b")) if action == "cordon" else f"workload/{WEB}",
        "scope": world.rng.choice(SCOPES),
        "reason": "a test",
        "expiresAfter": f"{world.rng.randrange(*LASTS_S)}s",
        "changes": {change: True},
    }
    obj = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name},
        "spec": orders[name],
    }
    await world.api.create(OVERRIDES, NAMESPACES_OF[change], obj)


async def _end(world: World) -> None:
    overrides = world.list(OVERRIDES.name)
    if overrides:
        chosen = metadata(world.rng.choice(overrides))
        await world.api.delete(OVERRIDES, chosen["namespace"], chosen["name"], uid=chosen["uid"])


async def _put(world: World, name: str, action: str, orders: dict[str, Obj]) -> None:
    """By hand, on any node; a binding as any other scheduler would send it."""
    where = world.rng.choice(sorted(PLACES))
    obj = pod(name)
    if action == "named":
        obj["spec"]["nodeName"] = where
        outcome = await world.api.create(PODS, "default", obj)
    else:
        obj["spec"]["schedulerName"] = "another"
        await world.api.create(PODS, "default", obj)
        await world.sleep(world.rng.random())
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": where}}
        outcome = await world.api.create(PODS, "default", binding, subresource="binding")
    message = outcome.why if isinstance(outcome, Conflict) else getattr(outcome, "message", "")
    refused = CORDONED_BY.search(message) if isinstance(outcome, (Conflict, Rejected)) else None
    if refused is not None:
        _must_be_cordoned(world, refused[1], orders[refused[2]])


def _must_be_cordoned(world: World, where: str, spec: Obj) -> None:
    if not _InForce(_changed(spec), spec["target"], spec["scope"], 0.0).cordons(where, PLACES):
        place = f"{spec['target']} in {spec['scope']}"
        world.broken(IN_SCOPE, f"a pod was kept off {where} by an override of {place}")


async def _join(world: World, name: str) -> None:
    """A pod that somebody else creates for the workload."""
    owner = world.get(REPLICA_SETS.name, Key("default", WEB))
    if owner is None:
        return
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": WEB, "uid": uid_of(owner)}
    obj = pod(name, labels=labels_of(lookup(owner, "spec", "template")))
    obj["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    await world.api.create(PODS, "default", obj)


SCENARIOS: tuple[Scenario, ...] = (overrides_forbid,)
