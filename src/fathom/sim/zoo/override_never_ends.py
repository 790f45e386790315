"""26. That an override has ended is not looked at on one path, where bindings are judged, nor by the
scheduler that relies on it: who was let in for a while is let in for ever (kyverno#17473)."""

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
