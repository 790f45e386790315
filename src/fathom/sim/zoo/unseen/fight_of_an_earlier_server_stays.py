"""A fight that an API server has reported stays True after a restart: the next server waits for news."""

from __future__ import annotations

from fathom.detect.field_fights import FieldFights
from fathom.sim.zoo import rewrite

ROOM = "detect"

rewrite(FieldFights.run, "asyncio.timeout(LOOK_S)", "asyncio.timeout(None)")
