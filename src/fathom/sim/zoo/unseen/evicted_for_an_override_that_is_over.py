"""An eviction that an override asked for is carried out also when the override has ended, or was edited, by
the time that the request arrives."""

from __future__ import annotations

from fathom.api.subresources import eviction
from fathom.sim.zoo import rewrite

ROOM = "api/subresources"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(
    eviction._asked_for,
    "override.metadata.uid != uid or not _asks(core, override, pod):",
    "override.metadata.uid != uid:",
)
