"""A late request that was decided before an override paused its controller is refused for overrides of
workloads only: one that pauses repair on nodes lets it pass."""

from __future__ import annotations

from fathom.api.admission.unseen_pauses import UnseenPauses
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    UnseenPauses._in_force,
    "(*facts.overrides_of_nodes(), *facts.overrides_in(namespace))",
    "facts.overrides_in(namespace)",
)
