"""A new leader looks at the objects that exist, and not at the owners that only their children name: what an
owner left behind that went while nobody led stays."""

from __future__ import annotations

from fathom.control.waking import Waker
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(Waker.look_at_all, "for watch in self._watches", "for watch in self._watches[:1]")
