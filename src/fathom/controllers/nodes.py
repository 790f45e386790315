"""Keeps an ear on every node: whether its agent is heard, what follows if it is not. Level-based, per node.

What was heard when is kept here, in the process that leads: a new leader gives everybody a new time of grace.
So does one that was blind itself: while our own view of the leases is old, nobody else's silence counts.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from fathom.cache.freshness import NoOlderThan
from fathom.cache.indexes import FOR_NODES, FOR_PODS
from fathom.cache.snapshot import Snapshot
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.plan import Delete, Plan, target
from fathom.control.watches import CONFIG_MAP, LEASE, NODE, POD, Kind, Primary, Related, View, Watch
from fathom.controllers.brake import BrakeLimits, Permit, Stand, eased, limits_of, permit
from fathom.controllers.evidence import SECOND_NS, Assessment, Heard, Limits, State, assess
from fathom.controllers.news import of_eviction, of_node
from fathom.controllers.plan_evictions import OUT_OF_SERVICE, leaving, mark_of, marks, no_execute
from fathom.controllers.plan_nodes import (
    FRESH_S,
    NEEDS,
    entered,
    plan_node,
    plan_out_of_service,
    state_of,
    zone_of,
)
from fathom.model.conditions import conditions_of
from fathom.model.objects import Key, Obj, key_of, lookup, metadata

LEASES = "kube-node-lease"
SIGNS_OF_LIFE = Kind(LEASE.name, LEASE.resource, LEASES)
BRAKE = Key("fathom-system", "node-brake")
BRAKE_LIMITS = Kind(CONFIG_MAP.name, CONFIG_MAP.resource, BRAKE.namespace)
# Annotation by which people say that the machine is gone; Kubernetes' taint for it counts too.
OPERATOR = "fathom.dev/declare-lost"
# Annotations in which others say what they see of a node, with the time until which it counts.
REPORTS = {"connection": "fathom.dev/unconnected-until", "gateway": "fathom.dev/unserved-until"}

# Between two looks at a node: one that is ill, and one that is not. A lease that is renewed wakes us for an
# ill one only: thousands of healthy ones renew theirs every ten seconds.
ILL_S, WELL_S = 5.0, 10.0
NEEDS_TO_EVICT = (NoOlderThan(FRESH_S, ("Node", "Pod")),)
PODS_AT_ONCE = 50  # Of one node, taken out of service or evicted in one pass.


def _leased(lease: Obj, view: View) -> tuple[Key, ...]:
    return _if_ill(key_of(lease).name, view)


def _here(pod: Obj, view: View) -> tuple[Key, ...]:
    """One that has just been bound to a node that is ill must not be forgotten."""
    name = lookup(pod, "spec", "nodeName")
    return _if_ill(str(name), view) if name else ()


def _if_ill(name: str, view: View) -> tuple[Key, ...]:
    node = view().get("Node", Key("", name))
    return (Key("", name),) if node is not None and lookup(node, "spec", "taints") else ()


class _Ear(msgspec.Struct):
    """What was last said, and when we heard it."""

    lease: object
    lease_ns: int
    status: object
    status_ns: int
    renewed_ns: int | None = None
    many_ns: int | None = None  # When the brake last held it for being one of many.


class Nodes:
    name = "nodes"
    news = staticmethod(of_node)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(NODE, conditions=False, indexes=FOR_NODES),
        Related(SIGNS_OF_LIFE, concerns=_leased),
        Related(POD, concerns=_here, indexes=FOR_PODS),
        Related(BRAKE_LIMITS),
    )

    def __init__(self, kit: Kit, limits: Limits | None = None) -> None:
        self._kit = kit
        self._limits = limits or Limits()
        self._ears: dict[str, _Ear] = {}
        self._blind_ns = 0  # When we were last blind; silence before that says nothing.

    async def reconcile(self, key: Key) -> Again:
        view, now_ns = self._kit.snapshot(), self._kit.now_ns()
        node = view.get("Node", key)
        if node is None:
            self._ears.pop(key.name, None)
            return Again.never()
        found = self._assessed(view, node, now_ns)
        allowed = self._permit(view, node, found, now_ns)
        plan = plan_node(node, found, allowed.allowed, allowed.why, now=self._kit.now())
        applied = await self._kit.apply(key, plan, seen=view)
        if applied.failure is not None or allowed.allowed < State.UNREACHABLE:
            ill = found.state > State.HEALTHY
            return Again.after(applied, in_s=ILL_S if ill else WELL_S, why="listen again")
        return await self._take_out_of_service(key)

    async def _take_out_of_service(self, key: Key) -> Again:
        view = self._kit.snapshot()
        pods = view.by_index("Pod", "node", key.name)
        statuses = plan_out_of_service(pods, now=self._kit.now())[:PODS_AT_ONCE]
        applied = await self._kit.apply(key, Plan(statuses=statuses, needs=NEEDS, why="unheard"), seen=view)
        return Again.after(applied, in_s=ILL_S if len(statuses) < PODS_AT_ONCE else 0.1, why="listen again")

    # Listening.

    def _assessed(self, view: Snapshot, node: Obj, now_ns: int) -> Assessment:
        if max(view.age("Lease"), view.age("Node")) > FRESH_S:
            self._blind_ns = now_ns
        ear = self._listen(view, node, now_ns)
        since_ns = self._blind_ns
        heard = Heard(
            max(ear.lease_ns, since_ns),
            max(ear.status_ns, since_ns),
            reported(node, now_ns=now_ns),
            renewed_ns=ear.renewed_ns,
            before=state_of(node),
        )
        return assess(heard, now_ns=now_ns, limits=self._limits)

    def _listen(self, view: Snapshot, node: Obj, now_ns: int) -> _Ear:
        name = key_of(node).name
        lease = view.get("Lease", Key(LEASES, name))
        renewed = lookup(lease, "spec", "renewTime") if lease is not None else None
        beats = [each["lastHeartbeatTime"] for each in conditions_of(node) if each.get("lastHeartbeatTime")]
        ear = self._ears.setdefault(name, _Ear(renewed, now_ns, beats, now_ns))
        if ear.lease != renewed:
            ear.lease, ear.lease_ns, ear.renewed_ns = renewed, now_ns, now_ns
        if ear.status != beats:
            ear.status, ear.status_ns = beats, now_ns
        return ear

    # Braking.

    def _permit(self, view: Snapshot, node: Obj, found: Assessment, now_ns: int) -> Permit:
        if found.state <= State.SUSPECT:
            return Permit(found.state)
        stand = stand_of(node, found.state)
        others = [stand_of(each, self._stands(view, each, now_ns)) for each in view.list("Node")]
        allowed = permit(stand, others, now_ns=now_ns, limits=self._brake(view))
        if any(each.signal == "operator" for each in found.evidence):
            return allowed
        ear = self._ears[key_of(node).name]
        if allowed.many:
            ear.many_ns = now_ns
        return eased(allowed, many_ns=ear.many_ns, now_ns=now_ns, wait_s=self._limits.unreachable_s)

    def _stands(self, view: Snapshot, node: Obj, now_ns: int) -> State:
        """As the evidence has it now; for one we have not listened to yet, as its conditions do."""
        known = key_of(node).name in self._ears
        return self._assessed(view, node, now_ns).state if known else state_of(node)

    def _brake(self, view: Snapshot) -> BrakeLimits:
        config = view.get("ConfigMap", BRAKE)
        limits, wrong = limits_of((config or {}).get("data") or {})
        if wrong:
            self._kit.log.warn("the brake's ConfigMap cannot be read", wrong=wrong)
        return limits


def stand_of(node: Obj, assessed: State) -> Stand:
    return Stand(
        key_of(node).name,
        zone_of(node),
        assessed,
        flipped_ns=_ns(entered(node, State.UNREACHABLE)),
        evicted_ns=_ns(entered(node, State.LOST)),
    )


def _ns(text: str | None) -> int | None:
    return None if text is None else int(datetime.fromisoformat(text).timestamp()) * SECOND_NS


def reported(node: Obj, *, now_ns: int) -> tuple[tuple[str, str], ...]:
    """What people and other parts say about the node."""
    notes = metadata(node).get("annotations") or {}
    found = []
    taints = lookup(node, "spec", "taints") or ()
    if notes.get(OPERATOR) or any(taint.get("key") == OUT_OF_SERVICE for taint in taints):
        found.append(("operator", notes.get(OPERATOR) or "it is tainted as out of service"))
    for signal, name in REPORTS.items():
        until_ns = _ns(_time(notes.get(name)))
        if until_ns is not None and until_ns > now_ns:
            found.append((signal, f"{name} says so"))
    return tuple(found)


def _time(text: object) -> str | None:
    try:
        datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return str(text)


class Evictions:
    """Carries out what NoExecute taints ask for, whoever put them there."""

    name = "taint-evictions"
    news = staticmethod(of_eviction)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(NODE, conditions=False, indexes=FOR_NODES),
        Related(POD, concerns=_here, indexes=FOR_PODS),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        # By node: since when its taints are known. kubectl does not say when it added one.
        self._heard: dict[str, dict[str, int]] = {}

    async def reconcile(self, key: Key) -> Again:
        view = self._kit.snapshot()
        node = view.get("Node", key)
        if node is None:
            self._heard.pop(key.name, None)
            return Again.never()
        now_ns = self._kit.now_ns()
        heard = self._listen(node)
        going = leaving(node, view.by_index("Pod", "node", key.name), heard=heard, now_ns=now_ns)
        if not going:
            return Again.never()
        now = [each for each in going if each.after_s <= 0][:PODS_AT_ONCE]
        plan = Plan(
            patches=marks(now, now=self._kit.now()),
            deletes=tuple(Delete(target("Pod", each.pod)) for each in now),
            needs=NEEDS_TO_EVICT,
            why=f"driven away by {', '.join(sorted({each.taint for each in now}))}",
        )
        applied = await self._kit.apply(key, plan, seen=view)
        later = [each.after_s for each in going if each.after_s > 0]
        return Again.after(applied, in_s=min(later, default=None), why="somebody's time to stay ends")

    def _listen(self, node: Obj) -> dict[str, int]:
        """A taint that went and came again counts anew."""
        name, now_ns = key_of(node).name, self._kit.now_ns()
        known = self._heard.get(name, {})
        heard = {mark: known.get(mark, now_ns) for mark in map(mark_of, no_execute(node))}
        if heard:
            self._heard[name] = heard
        else:
            self._heard.pop(name, None)
        return heard
