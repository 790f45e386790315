"""What changes while the gateway sends its table and writes its routes' statuses is forgotten at the end of
that pass: the table and the statuses stay as they are until something else changes."""

from __future__ import annotations

from fathom.gateway.controller import Gateway
from fathom.sim.zoo import rewrite

ROOM = "gateway"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(
    Gateway._follow,
    "            self._dirty.clear()\n            await asyncio.sleep(GATHER_S)\n",
    "            await asyncio.sleep(GATHER_S)\n",
    "                    self._unwritten = True\n",
    "                    self._unwritten = True\n            self._dirty.clear()\n",
)
