"""Keeps as many pods as a ReplicaSet asks for, all of its newest template. Stands in for the real controller.

Pods of one template fill slots: the lowest that is free, where one that is going still occupies its own. So
the choice of a slot depends on what is seen, and a view without our own last pod would choose another:

    1. Slot 0 is going, so slot 2 is filled. 2. Slot 0 is gone; our view shows that, but not yet the new pod.
    3. Slot 0 is free: a third pod for two wanted.

The loop's wait for own writes is what keeps 3 from happening; and for those of the leader before us, `term`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from fathom.cache.needs import NoOlderThan
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.owning import child_name, free_slots, owned
from fathom.control.plan import NOTHING, Create, Delete, Plan, WriteStatus, target
from fathom.control.watches import POD, REPLICA_SET, OwnedBy, Primary, Watch
from fathom.model.conditions import conditions_of, is_true, set_condition
from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.sim.standins.term import Floor, since

TEMPLATE = "fathom.dev/template"  # Label: which template a pod was made from.
SLOT = "fathom.dev/slot"  # Annotation of a pod.
GENERATION = "fathom.dev/generation"  # Annotation of a pod: the ReplicaSet's when it was made.
SURGE = "fathom.dev/surge"  # Annotation of the ReplicaSet: how many more there may be while it rolls.
SCALED = "Scaled"

# Deleting needs a view that is not from long ago: what looks like a surplus may be gone.
FRESH_S = 10.0
KINDS = ("ReplicaSet", "Pod")


def is_live(pod: Obj) -> bool:
    """It runs or will; not going, not ended."""
    return not is_deleting(pod) and lookup(pod, "status", "phase") not in {"Succeeded", "Failed"}


def template_mark(owner: Obj) -> str:
    """Of the template in a fixed order of fields: one server's answer and its watch may differ in that."""
    template = msgspec.json.encode(lookup(owner, "spec", "template"), order="sorted")
    return f"{zlib.crc32(template):08x}"[:5]


def surge_of(owner: Obj) -> int:
    return int((metadata(owner).get("annotations") or {}).get(SURGE, 0))


def wanted_of(owner: Obj) -> int:
    return int(lookup(owner, "spec", "replicas") or 0)


def plan_replicas(owner: Obj, children: Sequence[Obj], *, now: str, floor: int = 0) -> Plan:
    if is_deleting(owner):
        return NOTHING  # The collector takes the children.
    live = [child for child in children if is_live(child)]
    mark = template_mark(owner)
    current = [child for child in live if labels_of(child).get(TEMPLATE) == mark]
    outdated = [child for child in live if labels_of(child).get(TEMPLATE) != mark]
    ended = [child for child in children if not is_live(child) and not is_deleting(child)]
    wanted = wanted_of(owner)
    room = wanted + surge_of(owner) - len(live)
    missing = max(0, min(wanted - len(current), room))
    taken = [slot_of(child) for child in children if labels_of(child).get(TEMPLATE) == mark]
    slots = free_slots(taken, missing)
    surplus = [*_by_worth(current)[: max(0, len(current) - wanted)], *_replaceable(current, outdated, owner)]
    deletes = tuple(Delete(target("Pod", child)) for child in (*surplus, *ended))
    return Plan(
        creates=tuple(Create("Pod", child_of(owner, slot, mark)) for slot in slots),
        deletes=deletes,
        statuses=_status(owner, live, now),
        needs=(NoOlderThan(FRESH_S, KINDS), since(floor, *KINDS)) if deletes else (since(floor, *KINDS),),
        why=f"{len(current)} current and {len(outdated)} outdated of {wanted}",
    )


def child_of(owner: Obj, slot: int, mark: str) -> Obj:
    template = lookup(owner, "spec", "template") or {}
    meta = {
        "name": pod_name(owner, slot, mark),
        "namespace": metadata(owner)["namespace"],
        "labels": {**(lookup(template, "metadata", "labels") or {}), TEMPLATE: mark},
        "annotations": {
            **(lookup(template, "metadata", "annotations") or {}),
            SLOT: str(slot),
            GENERATION: str(metadata(owner)["generation"]),
        },
    }
    return owned({"metadata": meta, "spec": template["spec"]}, owner)


def pod_name(owner: Obj, slot: int, mark: str) -> str:
    return child_name(f"{metadata(owner)['name']}-{mark}", slot)


def slot_of(child: Obj) -> int:
    return int((metadata(child).get("annotations") or {}).get(SLOT, 0))


def _replaceable(current: Sequence[Obj], outdated: Sequence[Obj], owner: Obj) -> list[Obj]:
    """Those of an old template, as far as enough others are ready; where nothing may be added, one at a
    time."""
    enough = wanted_of(owner) - (0 if surge_of(owner) else 1)
    ready = sum(is_true(child, "Ready") for child in (*current, *outdated))
    found: list[Obj] = []
    for child in _by_worth(outdated):
        if is_true(child, "Ready"):
            if ready <= enough:
                break
            ready -= 1
        found.append(child)
    return found


def _by_worth(children: Sequence[Obj]) -> list[Obj]:
    """Those who do no work yet first, then the highest slots."""
    return sorted(children, key=lambda child: (is_true(child, "Ready"), -slot_of(child)))


def _status(owner: Obj, live: Sequence[Obj], now: str) -> tuple[WriteStatus, ...]:
    generation, wanted = metadata(owner)["generation"], wanted_of(owner)
    ready = sum(is_true(child, "Ready") for child in live)
    conditions = set_condition(
        conditions_of(owner),
        type=SCALED,
        status="True" if len(live) == wanted else "False",
        reason="AsWanted" if len(live) == wanted else "OnTheWay",
        message=f"{wanted} wanted",
        now=now,  # A ReplicaSet's conditions have no generation: the server would drop it.
    )
    status: Obj = {
        "replicas": len(live),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": generation,
        "conditions": conditions,
    }
    before = owner.get("status") or {}
    if all((before.get(name) or 0) == value for name, value in status.items()):
        return ()
    return (WriteStatus(target("ReplicaSet", owner), status),)


class Replicator:
    name = "replicator"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(REPLICA_SET), OwnedBy(POD))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = Floor(kit)

    async def reconcile(self, key: Key) -> Again:
        floor = await self._floor.revision()
        view = self._kit.snapshot()
        owner = view.get("ReplicaSet", key)
        if owner is None:
            return Again.never()
        plan = plan_replicas(owner, view.owned("Pod", uid_of(owner)), now=self._kit.now(), floor=floor)
        return Again.after(await self._kit.apply(key, plan, seen=view))
