"""An eviction does not note its pod in the budget: until the deletion is seen, the pod counts as healthy, and
another one may be evicted."""

from __future__ import annotations

from fathom.api.subresources.eviction import take_disruption
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    take_disruption,
    '    disrupted = {**(status.get("disruptedPods") or {}), pod: now}\n',
    "",
    '"disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}',
    '"disruptionsAllowed": allowed - 1}',
)
