"""At rest no pod waits that could be scheduled, and those that wait say why. (`capacity` checks that nothing
is over its limit.)"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, is_deleting, key_of, lookup
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
        for pod in waiting_pods(world):
            view = cluster.view(pod)
            placement = cluster.decider.place(view, cluster.context(view, now_ns=now_ns))
            if placement.node is not None:
                name = "/".join(key_of(pod))
                yield Finding(f"{name} is pending, but {placement.node} has room", (f"pods/{name}",))


class WaitingPodsSayWhy(Checker):
    """At rest, each pod that waits has the condition that tells its owner why."""

    name = "a pod that waits says why"
    patience_s = 90.0  # It is tried again within a minute, and then says it.

    def settled(self, world: World) -> Iterable[str | Finding]:
        for pod in waiting_pods(world):
            condition = find_condition(conditions_of(pod), "PodScheduled")
            if condition is None or condition.get("status") != "False" or not condition.get("message"):
                name = "/".join(key_of(pod))
                yield Finding(f"{name} has no node and does not say why", (f"pods/{name}",))


def waiting_pods(world: World) -> list[Obj]:
    return [
        pod
        for pod in world.list("pods")
        if not (lookup(pod, "spec", "nodeName") or is_deleting(pod) or is_terminal(pod))
    ]


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
