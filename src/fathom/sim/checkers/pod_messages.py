"""What schedulers say about the pods that wait is what they have found last, and it is so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.model.conditions import SCHEDULING_RETRYING, conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.times import timestamp
from fathom.schedule.loop.pod_status_writer import PodMessage, conditions_said
from fathom.schedule.loop.process import SchedulerProcess
from fathom.sim.checkers.quiet_processes import may_act
from fathom.sim.checkers.scheduling import the_truth, waiting_pods
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.process import EPOCH_NS

if TYPE_CHECKING:
    from fathom.sim.world.world import World


class WaitingPodsSayWhatIsSo(Checker):
    """At rest: a pod that waits has the conditions of the last message about it, also where a write of them
    got no answer, or met another change of the pod. The reason is the one that the scheduler's own decider
    finds on the store, and a node is named for the pod only where its scheduler counts room for it."""

    name = "a pod that waits says what its scheduler has found last"
    patience_s = 150.0  # It is tried again within a minute, and once more where caches were behind.

    def settled(self, world: World) -> Iterable[str | Finding]:
        pods = waiting_pods(world)
        schedulers = [
            process.state
            for process in world.engine.processes.values()
            if process.alive and isinstance(process.state, SchedulerProcess) and may_act(process.state)
        ]
        if not pods or not schedulers:
            return
        for pod in pods:
            for wrong in (_unsaid(world, schedulers, pod), _unclaimed(schedulers, pod)):
                if wrong is not None:
                    yield _finding(pod, wrong)
        yield from _untrue(world, pods)


def _unsaid(world: World, schedulers: list[SchedulerProcess], pod: Obj) -> str | None:
    now = timestamp(EPOCH_NS + world.engine.now_ns)
    for each in schedulers:
        message = _last(each, uid_of(pod))
        if message is None:
            continue
        has = conditions_of(pod)
        for condition in conditions_said(pod, message, now=now):
            if condition not in has:
                return f"does not say {condition['type']}={condition['status']}: {condition['message']}"
        if not message.waits_for_room and lookup(pod, "status", "nominatedNodeName"):
            return f"waits for no room, and names node {lookup(pod, 'status', 'nominatedNodeName')}"
    return None


def _last(scheduler: SchedulerProcess, uid: str) -> PodMessage | None:
    writer = scheduler.scheduler.state.status_writer
    sent = None if writer is None else writer._last.get(uid)
    return None if sent is None else sent.word


def _unclaimed(schedulers: list[SchedulerProcess], pod: Obj) -> str | None:
    node = lookup(pod, "status", "nominatedNodeName")
    claims = [each.scheduler.known.table.claims.get(uid_of(pod)) for each in schedulers]
    if not node or any(claim is not None and claim.node == node for claim in claims):
        return None
    return f"names node {node}, where nobody counts room for it"


def _untrue(world: World, pods: list[Obj]) -> Iterable[Finding]:
    cluster = the_truth(world)
    now_ns = EPOCH_NS + world.engine.now_ns
    for pod in pods:
        condition = find_condition(conditions_of(pod), SCHEDULING_RETRYING)
        if condition is None or condition.get("status") != "True":
            continue
        view = cluster.view(pod)
        placement = cluster.decider.place(view, cluster.context(view, now_ns=now_ns))
        reasons = [each.reason for each in placement.rejections]
        if placement.node is None and reasons and condition.get("reason") not in reasons[:1]:
            yield _finding(pod, f"says {condition.get('reason')}, and waits because of {reasons}")


def _finding(pod: Obj, wrong: str) -> Finding:
    key: Key = key_of(pod)
    path = "/".join(("pods", *key))
    return Finding(f"{path} {wrong}", (path,))
