"""What fails is tried again for minutes before it is given up, however much happens meanwhile."""

from __future__ import annotations

from fathom.model.conditions import is_true
from fathom.model.objects import metadata, uid_of
from fathom.sim.world.invariants import Checker, Found, Seen

STALLED = "Stalled"
LEAST_S = 120.0  # Twenty attempts with their waits take longer, also when each wait is as short as it may be.


class NothingIsGivenUpSoon(Checker):
    """An object is called stalled when attempts have failed for minutes. A new generation, or one success,
    begins anew. Changes of other objects wake a controller too: they use up no attempt."""

    name = "nothing is given up within two minutes"

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str, object], float] = {}  # Path, UID, generation -> when it began.

    def commit(self, change: Seen) -> Found:
        new = change.new
        if new is None or not isinstance(new.get("status"), dict):
            return None
        intent = (change.path, uid_of(new), metadata(new).get("generation"))
        since_s = self._since_s.setdefault(intent, change.at_s)
        if not is_true(new, STALLED) or (change.old is not None and is_true(change.old, STALLED)):
            return None
        if change.at_s - since_s >= LEAST_S:
            return None
        return f"{change.by} gave {change.path} up {change.at_s - since_s:.0f} s after its generation began"
