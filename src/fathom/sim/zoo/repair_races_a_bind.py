"""17, in repair itself. Repair releases a reservation because its cache does not show the pod that it is held
for, whose binding is under way; and the binding takes the room without checking that the reservation still
exists. As in the original bug, nothing checks the room at the commit."""

from __future__ import annotations

from typing import Any

from fathom.api.binding import checks
from fathom.control.reconcile_result import ReconcileResult
from fathom.controllers.repair.controller import RepairReservations, _pod_named
from fathom.controllers.repair.plan import plan_reservation
from fathom.model.binding_checks import RESERVATION_GONE
from fathom.model.objects import Key
from fathom.sim.zoo import put_back

SCENARIOS = ("reserved-while-repair-is-deaf",)
BREAKS = "no node or quota over its limit"

_reserved, _room = checks._reservation_refusal, checks.judge_room


async def from_cache(self: Any, key: Key) -> ReconcileResult:
    view = self._kit.snapshot()
    reservation = view.get("Reservation", key)
    if reservation is None:
        return ReconcileResult.never()
    pod = view.get("Pod", Key(key.namespace, _pod_named(reservation)))
    void_s = self._void_s(key, reservation)
    now_ns, now = self._kit.now_ns(), self._kit.now()
    plan = plan_reservation(reservation, pod, (reservation,), now_ns=now_ns, now=now, void_s=void_s)
    return ReconcileResult.after(await self._kit.apply(key, plan, seen=view), in_s=15.0, why="a scan")


def at_its_word(case: Any) -> Any:
    refusal = _reserved(case)
    case.trusted = refusal is not None and refusal.check == RESERVATION_GONE
    return None if case.trusted else refusal


def room_for_granted(case: Any, *args: Any) -> Any:
    return None if getattr(case, "trusted", False) else _room(case, *args)


put_back(RepairReservations, "reconcile", from_cache)
put_back(checks, "_reservation_refusal", at_its_word)
put_back(checks, "judge_room", room_for_granted)
