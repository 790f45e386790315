"""26. Neither the check of a binding nor the scheduler looks whether an override has ended: a pod that was
let in for a while is let in for ever (kyverno#17473)."""

from __future__ import annotations

from typing import Any

from fathom.api.binding import checks
from fathom.schedule.loop import cluster_view
from fathom.sim.zoo import put_back

SCENARIOS = ("overrides-end",)
BREAKS = "no placement by an override that has ended"


def while_it_is_there(override: Any, now_ns: int) -> bool:
    return not override.metadata.deletion_timestamp


put_back(checks, "override_active", while_it_is_there)
put_back(cluster_view, "override_active", while_it_is_there)
