"""The time in which a step could not be judged counts as time in which it was tried."""

from __future__ import annotations

from fathom.schedule.policy_rollout.plan import bake
from fathom.sim.zoo import rewrite

ROOM = "schedule/policy_rollout"

rewrite(
    bake,
    "counts_ns = max(0, min(monotonic_ns, before.fresh_until_ns) - before.looked_ns)",
    "counts_ns = max(0, monotonic_ns - before.looked_ns)",
)
