"""A reservation counts as needed as long as some pod has the name of its pod."""

from __future__ import annotations

from fathom.controllers.repair.plan import _is_orphaned
from fathom.sim.zoo import rewrite

ROOM = "controllers/repair"

rewrite(
    _is_orphaned,
    "return bool(wanted) and (pod is None or uid_of(pod) != wanted or is_terminal(pod))",
    "return bool(wanted) and (pod is None or is_terminal(pod))",
)
