"""The agent's report has its own conditions only: those that others wrote on the pod vanish."""

from __future__ import annotations

from fathom.agent.status import _conditions
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    _conditions,
    'conditions = list(lookup(pod, "status", "conditions") or ())',
    "conditions = []",
)
