"""A runbook's step patches an object whatever it has become since it was read."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.actions import _guarded

ROOM = "steer"

rewrite(
    _guarded,
    ('guarded = {**meta, "resourceVersion": revision, "uid": uid_of(current), "annotations": annotations}'),
    'guarded = {**meta, "annotations": annotations}',
)
