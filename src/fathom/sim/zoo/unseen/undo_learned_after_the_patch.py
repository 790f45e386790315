"""A runbook's step whose late request arrives before it is tried again takes the patched values for those
of before: undoing it changes nothing."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.actions import Actions

ROOM = "steer"

rewrite(
    Actions.prepare,
    "if current is not None and work.identity in identities_on(current):",
    "if current is not None and work.undo and work.identity in identities_on(current):",
)
