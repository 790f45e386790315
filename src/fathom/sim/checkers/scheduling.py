"""At rest no pod waits that could be scheduled. (`capacity` checks that nothing is over its limit.)"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.model.objects import is_deleting, key_of, lookup
from fathom.model.pod_phase import is_terminal
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.watched_kinds import KINDS
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.process import EPOCH_NS

if TYPE_CHECKING:
    from fathom.sim.world.world import World


class NoSchedulablePodIdles(Checker):
    """At rest, runs the scheduler's own decider on the store: it must find no node for any pending pod."""

    name = "no schedulable pod idles"

    def settled(self, world: World) -> Iterable[str | Finding]:
        cluster = the_truth(world)
        now_ns = EPOCH_NS + world.engine.now_ns
        for pod in world.list("pods"):
            if lookup(pod, "spec", "nodeName") or is_deleting(pod) or is_terminal(pod):
                continue
            view = cluster.view(pod)
            placement = cluster.decider.place(view, cluster.context(view, now_ns=now_ns))
            if placement.node is not None:
                name = "/".join(key_of(pod))
                yield Finding(f"{name} is pending, but {placement.node} has room", (f"pods/{name}",))


def the_truth(world: World) -> ClusterView:
    """The content of the store as a scheduler's `ClusterView`."""
    cluster = ClusterView()
    for kind in sorted(KINDS, key=lambda kind: kind.name == "Pod"):
        for obj in world.list(kind.resource.name):
            if kind.name == "Pod":
                cluster.put_pod(obj)
            else:
                cluster.put(kind.name, None, obj)
    return cluster
