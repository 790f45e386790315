"""A reservation that ends wakes no waiting pod."""

from __future__ import annotations

from fathom.schedule.loop.cluster_view import ClusterView
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    ClusterView._put_reservation,
    "return (rules.POD_GONE,) if freed or old_holder else ()",
    "return ()",
)
