"""A candidate is known by its process' name alone: restarted, it takes its own old lease at once."""

from __future__ import annotations

from fathom.control.lease import Elector
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    Elector.campaign,
    'identity = f"{self._identity_prefix}_{self._ids.uid()}"',
    "identity = self._identity_prefix",
)
