"""37. Only a new node wakes waiting pods, a changed one does not: a pod that waits for a node to be
uncordoned is placed when the queue retries everything, up to a minute later."""

from __future__ import annotations

from fathom.model.objects import Obj
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.sim.zoo import put_back

SCENARIOS = ("who-waits-is-woken",)
BREAKS = "a waiting pod is woken by the event that helps it"

_right = ClusterView._put_node


def only_what_is_new(self: ClusterView, before: Obj | None, after: Obj | None) -> tuple[str, ...]:
    happened = _right(self, before, after)
    return happened if before is None or after is None else ()


put_back(ClusterView, "_put_node", only_what_is_new)
