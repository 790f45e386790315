"""A fight whose Event could not be written once is never named: it counts as reported before the write."""

from __future__ import annotations

from fathom.detect.field_fights import FieldFights
from fathom.sim.zoo import rewrite

ROOM = "detect"

rewrite(
    FieldFights._report,
    "                await self._write_event(self._named[0])\n                self._named.pop(0)\n",
    "                await self._write_event(self._named.pop(0))\n",
)
