"""Containers of a pod that is being deleted are killed at once, without their grace period."""

from __future__ import annotations

from fathom.agent.plan import _ending
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    _ending,
    'return ends_ns if deleted_ns is None else deleted_ns, "the pod is being deleted"',
    'return now_ns, "the pod is being deleted"',
)
