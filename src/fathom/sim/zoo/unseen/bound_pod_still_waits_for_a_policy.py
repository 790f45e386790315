"""A pod that gets its node keeps the condition that it waits because of a policy: rollouts of that policy go
on counting it."""

from __future__ import annotations

from fathom.api.binding import checks
from fathom.model.conditions import BLOCKED_BY_POLICY
from fathom.sim.zoo import put_back

ROOM = "api/binding"

put_back(checks, "OVER", checks.OVER - {BLOCKED_BY_POLICY})
