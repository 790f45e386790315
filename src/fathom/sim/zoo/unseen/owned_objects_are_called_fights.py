"""The detector of fights does not know which objects another one controls: a rollout that is begun and taken
back is called an oscillation of its ReplicaSets."""

from __future__ import annotations

from fathom.detect.field_fights import FieldFights
from fathom.sim.zoo import rewrite

ROOM = "detect"

rewrite(
    FieldFights.updated,
    "*values, writer, now_ns, update.owned)",
    "*values, writer, now_ns)",
)
