"""Gives back reservations that nobody holds any more. Stands in for repair.

A reservation whose pod is not in our cache may belong to a pod that we have not heard of, whose bind is under
way. So before anything is given back, the pod is asked for by name at the server; and it is given back by a
write that holds only for the reservation as it was read, so that of a new holder and us one loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fathom.cache.indexes import STANDARD
from fathom.cache.needs import NoOlderThan
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.plan import NOTHING, Delete, Plan, WriteStatus, target
from fathom.control.watches import POD, Primary, Related, Watch
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.sim.standins.reserver import (
    POD_NAME,
    RESERVATION,
    VOID,
    by_claim,
    claim_of,
    claimed_by,
    holder_of,
    phase_of,
)

# Nothing tells us that a pod has gone which we never saw: everything is looked at again this often.
SCAN_S = 4.0
FRESH_S = 10.0


def is_orphaned(reservation: Obj, pod: Obj | None) -> bool:
    """`pod`: who has the holder's name, as the server says. Another pod with the same claim may take it
    over."""
    return pod is None or (uid_of(pod) != holder_of(reservation) and claim_of(pod) != claimed_by(reservation))


def plan_repair(reservation: Obj, pod: Obj | None, twins: Sequence[Obj]) -> Plan:
    if phase_of(reservation) in VOID:
        delete = Delete(target("Reservation", reservation))
        return Plan(deletes=(delete,), needs=(NoOlderThan(FRESH_S, ("Reservation",)),), why="void")
    if is_orphaned(reservation, pod):
        return Plan(statuses=(_released(reservation),), why="its pod is gone")
    if _is_younger_twin(reservation, twins):
        return Plan(statuses=(_released(reservation),), why="the same intent has an older one")
    return NOTHING


def _is_younger_twin(reservation: Obj, twins: Sequence[Obj]) -> bool:
    live = [one for one in twins if phase_of(one) not in VOID]
    oldest = min(live, key=lambda one: (metadata(one)["creationTimestamp"], key_of(one)), default=reservation)
    return uid_of(oldest) != uid_of(reservation)


def _released(reservation: Obj) -> WriteStatus:
    status = {"phase": "Released", "observedGeneration": metadata(reservation).get("generation")}
    return WriteStatus(target("Reservation", reservation), status)


class Repair:
    name = "repair"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(RESERVATION, conditions=False, indexes={**STANDARD, "claim": by_claim}),
        Related(POD),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> Again:
        known = self._kit.snapshot().get("Reservation", key)
        if known is None:
            return Again.never()
        pod = await self._pod(known)
        view = self._kit.snapshot()
        reservation = view.get("Reservation", key)
        if reservation is None or reservation is not known:
            return Again.in_s(0.1, "it changed while its pod was read")
        twins = view.by_index("Reservation", "claim", claimed_by(reservation).text)
        applied = await self._kit.apply(key, plan_repair(reservation, pod, twins), seen=view)
        return Again.after(applied, in_s=SCAN_S, why="a scan")

    async def _pod(self, reservation: Obj) -> Obj | None:
        name = lookup(reservation, "metadata", "annotations", POD_NAME)
        return (
            await self._kit.api.get(POD.resource, key_of(reservation).namespace, str(name)) if name else None
        )
