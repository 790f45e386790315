"""Holds capacity for pods that ask for it, then binds them. Stands in for the scheduler.

A reservation is named after what it is for: workload, slot, generation, intent. Whoever repeats the claim, in
another term or from a cache that has not heard of the first one, asks for the same name and meets it:

    1. A create commits, its answer is lost. 2. The leader dies. 3. The next one's cache shows no reservation.
    4. It creates the same name: a conflict, which a read resolves. There is one reservation, and it is ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from fathom.cache.indexes import STANDARD
from fathom.client.api import Resource
from fathom.client.outcomes import Committed
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.owning import controller_of
from fathom.control.plan import NOTHING, Create, Patch, Plan, WriteStatus, target
from fathom.control.watches import POD, Kind, Primary, Related, View, Watch
from fathom.model.conditions import conditions_of, find_condition, set_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of

RESERVATION = Kind("Reservation", Resource("fathom.dev", "v1alpha1", "reservations"))

INTENT = "fathom.dev/reserve"  # Label of a pod: what it wants capacity for.
SLOT = "fathom.dev/slot"  # Annotations of a pod: which replica it is, of which generation.
GENERATION = "fathom.dev/generation"
POD_NAME = "fathom.dev/pod"  # Annotations of a reservation: who holds it now.
POD_UID = "fathom.dev/pod-uid"
RESERVED = "Reserved"  # Condition of a pod.

VOID = frozenset({"Released", "Expired"})
NODES = ("node-1", "node-2", "node-3")


class Claim(msgspec.Struct, frozen=True):
    """What a reservation is for: its identity."""

    workload: str
    uid: str
    slot: int
    generation: int
    intent: str

    @property
    def text(self) -> str:
        return f"{self.uid}/{self.slot}/{self.generation}/{self.intent}"


def claim_of(pod: Obj) -> Claim | None:
    """None: it asks for nothing. A pod without a workload is its own."""
    intent = labels_of(pod).get(INTENT)
    if not intent:
        return None
    owner = controller_of(pod) or metadata(pod)
    notes = metadata(pod).get("annotations") or {}
    return Claim(
        workload=str(owner["name"]),
        uid=str(owner["uid"]),
        slot=int(notes.get(SLOT, 0)),
        generation=int(notes.get(GENERATION, 0)),
        intent=intent,
    )


def claimed_by(reservation: Obj) -> Claim:
    spec = reservation["spec"]
    workload = spec["workload"]
    return Claim(
        workload=str(workload.get("name", "")),
        uid=str(workload["uid"]),
        slot=int(spec.get("slot", 0)),
        generation=int(workload.get("generation", 0)),
        intent=str(spec["intent"]),
    )


def by_claim(reservation: Obj) -> tuple[str, ...]:
    return (claimed_by(reservation).text,)


def reservation_name(claim: Claim) -> str:
    return f"{claim.workload}-{claim.slot}-{hashlib.sha256(claim.text.encode()).hexdigest()[:10]}"


def plan_reservation(pod: Obj, claim: Claim, found: Sequence[Obj], *, now: str) -> Plan:
    """`found`: the reservations with this claim. One step at a time: each rests on the one before."""
    held = next((one for one in found if phase_of(one) not in VOID), None)
    if held is None:
        if found:
            return NOTHING  # A void one has the name, until repair has removed it.
        return Plan(
            creates=(Create("Reservation", reservation_for(pod, claim)),), why=f"reserve {claim.text}"
        )
    if holder_of(held) != uid_of(pod):
        notes = {POD_NAME: key_of(pod).name, POD_UID: uid_of(pod)}
        return Plan(
            patches=(Patch(target("Reservation", held), {"metadata": {"annotations": notes}}),),
            why="take over",
        )
    if phase_of(held) == "":
        return Plan(statuses=(_phase(held, "Active"),), why="confirm")
    bound = bool(lookup(pod, "spec", "nodeName"))
    if bound and phase_of(held) == "Active":
        return Plan(statuses=(_phase(held, "Bound"),), why="bound")
    if not bound and phase_of(held) == "Bound":
        return Plan(statuses=(_phase(held, "Active"),), why="its last holder was bound, this one is not yet")
    return Plan(statuses=_said(pod, held, now), why="say so")


def may_bind(pod: Obj, found: Sequence[Obj]) -> Obj | None:
    """The reservation on whose strength the pod may be bound now."""
    if lookup(pod, "spec", "nodeName"):
        return None
    return next((one for one in found if phase_of(one) == "Active" and holder_of(one) == uid_of(pod)), None)


def reservation_for(pod: Obj, claim: Claim) -> Obj:
    key = key_of(pod)
    return {
        "metadata": {
            "name": reservation_name(claim),
            "namespace": key.namespace,
            "annotations": {POD_NAME: key.name, POD_UID: uid_of(pod)},
        },
        "spec": {
            "workload": {"name": claim.workload, "uid": claim.uid, "generation": claim.generation},
            "slot": claim.slot,
            "intent": claim.intent,
            "nodeName": NODES[claim.slot % len(NODES)],
        },
    }


def phase_of(reservation: Obj) -> str:
    return str(lookup(reservation, "status", "phase") or "")


def holder_of(reservation: Obj) -> str:
    return str(lookup(reservation, "metadata", "annotations", POD_UID) or "")


def _phase(reservation: Obj, phase: str) -> WriteStatus:
    status = {"phase": phase, "observedGeneration": metadata(reservation).get("generation")}
    return WriteStatus(target("Reservation", reservation), status)


def _said(pod: Obj, reservation: Obj, now: str) -> tuple[WriteStatus, ...]:
    """On the pod: what it has."""
    before, name = conditions_of(pod), key_of(reservation).name
    known = find_condition(before, RESERVED)
    if known is not None and known.get("message") == name:
        return ()
    after = set_condition(before, type=RESERVED, status="True", reason="Confirmed", message=name, now=now)
    return (WriteStatus(target("Pod", pod), {"conditions": after}),)


def _pod_of(reservation: Obj, view: View) -> tuple[Key, ...]:
    name = lookup(reservation, "metadata", "annotations", POD_NAME)
    return (Key(key_of(reservation).namespace, str(name)),) if name else ()


class Reserver:
    name = "reserver"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(POD, conditions=False),
        Related(RESERVATION, concerns=_pod_of, indexes={**STANDARD, "claim": by_claim}),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> Again:
        view = self._kit.snapshot()
        pod = view.get("Pod", key)
        claim = claim_of(pod) if pod is not None else None
        if pod is None or claim is None or is_deleting(pod):
            return Again.never()
        found = view.by_index("Reservation", "claim", claim.text)
        plan = plan_reservation(pod, claim, found, now=self._kit.now())
        held = may_bind(pod, found)
        applied = await self._kit.apply(key, plan, seen=view)
        if applied.failure is None and held is not None:
            return await self._bind(pod, str(held["spec"]["nodeName"]))
        return Again.after(applied)

    async def _bind(self, pod: Obj, node: str) -> Again:
        key = key_of(pod)
        binding = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid_of(pod)},
            "target": {"kind": "Node", "name": node},
        }
        outcome = await self._kit.api.create(POD.resource, key.namespace, binding, "binding")
        if isinstance(outcome, Committed):
            return Again.never()  # The pod's own change brings us back.
        return Again.failed("NotBound", str(outcome))
