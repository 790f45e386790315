"""20. What a pod holds is released when its deletion is requested and again when it is gone: the ledger shows
room that is not there."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import DELETE, Charge, WriteAttempt
from fathom.api.ledger.admission import LedgerKeeper
from fathom.model.view import View
from fathom.sim.zoo import put_back

SCENARIOS = ("scheduling",)
BREAKS = "a node's or tenant's ledger equals the sum of its pods"

_right = LedgerKeeper.charge


def also_when_it_is_asked_for(self: LedgerKeeper, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
    return self.release(attempt, view) if attempt.operation == DELETE else _right(self, attempt, view)


put_back(LedgerKeeper, "charge", also_when_it_is_asked_for)
