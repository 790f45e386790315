"""A process withdraws only those conditions about trouble that it has written itself: an object that an
earlier leader called stalled stays so, although it is reconciled."""

from __future__ import annotations

from fathom.control.loop import Loop
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    Loop._went_well,
    "        else:\n            await self._report(key, obj, None",
    "        elif key in self._reported_ns:\n            await self._report(key, obj, None",
)
