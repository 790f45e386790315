"""37. A node that changes wakes nobody, only one that is new does: who waits for it to be opened is placed
when the line looks at everybody again, up to a minute later."""

from __future__ import annotations

from fathom.model.objects import Obj
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.sim.zoo import put_back

SCENARIOS = ("who-waits-is-woken",)
BREAKS = "who waits is woken by what helps it"

_right = ClusterView._put_node


def only_what_is_new(self: ClusterView, before: Obj | None, after: Obj | None) -> tuple[str, ...]:
    happened = _right(self, before, after)
    return happened if before is None or after is None else ()


put_back(ClusterView, "_put_node", only_what_is_new)
