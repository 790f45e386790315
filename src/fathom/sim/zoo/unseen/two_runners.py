"""A runner whose run was taken over writes its record over that of the other and goes on."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.record_writer import RunRecord

ROOM = "steer"

rewrite(
    RunRecord._is_written,
    "if (holder.epoch, holder.sequence) != (before.epoch, before.sequence):",
    "if False:",
)
