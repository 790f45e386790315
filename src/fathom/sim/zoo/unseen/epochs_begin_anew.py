"""A lease that was deleted and made again begins with epoch 1: who held it in an earlier epoch of that
number may write again."""

from __future__ import annotations

from fathom.api.admission.fences import LeaseFence
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    LeaseFence._epoch,
    'epoch = int(seen.obj["epoch"]) if seen else 0',
    'epoch = int(seen.obj["epoch"]) if seen and attempt.old is not None else 0',
)
