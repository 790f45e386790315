"""The scheduler does not notice that a rollout's next step has a larger share: it goes on deciding by the
share of the step before, and reports that it has seen the new one."""

from __future__ import annotations

from fathom.schedule.loop.cluster_view import _spec_and_phase
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    _spec_and_phase,
    '"canary", "percent", "expiresAt"',
    '"canary", "expiresAt"',
)
