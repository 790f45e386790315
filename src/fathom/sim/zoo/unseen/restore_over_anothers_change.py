"""A run that is undone puts the values of before back also where somebody else has changed them since."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.actions import Actions

ROOM = "steer"

rewrite(
    Actions._to_send,
    "return still_ours(current, work.patched or {}, work.record.undo_patch or {})",
    "return work.record.undo_patch or {}",
)
