"""What a write changes in the ledger. Pure: computed from the old and the new object alone."""

from __future__ import annotations

import msgspec

from fathom.api.ledger.holdings import Holding, pod_holding, reservation_holding
from fathom.kinds.reservation import RESERVATIONS, VOID, Reservation
from fathom.kinds.shape import read
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.tenancy import ACCOUNT

PODS = "pods"
_ACCOUNT = ("metadata", "annotations", ACCOUNT)


class LedgerClaim(msgspec.Struct, frozen=True):
    """A reservation that is not void, and its intent."""

    namespace: str
    intent: str
    holder: str


class Delta(msgspec.Struct, frozen=True):
    """What one commit releases and charges."""

    released: Holding | None = None
    charged: Holding | None = None
    unclaimed: LedgerClaim | None = None
    claimed: LedgerClaim | None = None

    def __bool__(self) -> bool:
        return any((self.released, self.charged, self.unclaimed, self.claimed))


NOTHING = Delta()


def ledger_delta(resource: str, old: Obj | None, new: Obj | None) -> Delta:
    """Charged when a node appears: at creation, by a binding, by a reservation. Released when the object ends
    or is finally removed, never when its deletion is requested: until then it may still run."""
    if resource == PODS:
        if old is not None and new is not None and _same(old, new):
            return NOTHING
        before, after = pod_holding(old), pod_holding(new)
        return NOTHING if before == after else Delta(before, after)
    before, after = reservation_holding(old), reservation_holding(new)
    if before == after:
        before = after = None
    unclaimed, claimed = claim_of(old), claim_of(new)
    if unclaimed == claimed:
        unclaimed = claimed = None
    return Delta(before, after, unclaimed, claimed)


def _same(old: Obj, new: Obj) -> bool:
    """A quick comparison: nearly all writes to a pod are reports about its status."""
    if is_terminal(old) != is_terminal(new):
        return False
    spec, before = new.get("spec"), old.get("spec")
    same_account = lookup(new, *_ACCOUNT) == lookup(old, *_ACCOUNT)
    return same_account and (spec is before or spec == before)


def claim_of(reservation: Obj | None) -> LedgerClaim | None:
    if reservation is None or (lookup(reservation, "status", "phase") or "") in VOID:
        return None
    meta = metadata(reservation)
    try:
        intent = read(Reservation, reservation).intent
    except msgspec.ValidationError:  # No fathom server stores an invalid one.
        return None
    return LedgerClaim(str(meta.get("namespace") or ""), intent, str(meta.get("name") or ""))


__all__ = ["NOTHING", "PODS", "RESERVATIONS", "Delta", "LedgerClaim", "claim_of", "ledger_delta"]
