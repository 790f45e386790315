"""The progress controller writes its own conditions only: the one that repair keeps there vanishes."""

from __future__ import annotations

from fathom.controllers.progress.plan import _conditions
from fathom.sim.zoo import rewrite

ROOM = "controllers/progress"

rewrite(
    _conditions,
    "conditions = conditions_of(progress)\n",
    "conditions = []\n",
)
