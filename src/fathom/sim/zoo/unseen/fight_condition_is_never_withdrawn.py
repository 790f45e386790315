"""The condition that reports a fight stays True when the fight is over."""

from __future__ import annotations

from fathom.detect.field_fights import FieldFights
from fathom.sim.zoo import rewrite

ROOM = "detect"

rewrite(
    FieldFights._report,
    "            await self._write_conditions(fights)\n",
    "            if fights:\n                await self._write_conditions(fights)\n",
)
