"""A container that crashes is started again at once, however often it has crashed."""

from __future__ import annotations

from fathom.agent.backoff import delay_s
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    delay_s,
    "return 0 if crashes <= 1 else round(CRASH_LOOP.whole_s(crashes - 1))",
    "return 0",
)
