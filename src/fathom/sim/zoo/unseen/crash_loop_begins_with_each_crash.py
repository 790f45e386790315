"""A crash loop counts as begun with its latest crash, so that each crash gives it more time."""

from __future__ import annotations

from fathom.controllers.progress.crash_loops import loops_of
from fathom.sim.zoo import rewrite

ROOM = "controllers/progress"

rewrite(
    loops_of,
    "since_s = min(",
    "since_s = max(",
)
