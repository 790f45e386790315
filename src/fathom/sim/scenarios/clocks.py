"""Wall clocks are set, forward and back, by seconds and by days, while nothing else happens: durations are
measured on monotonic clocks, so nothing is evicted, tainted, restarted or rolled back."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, is_deleting, lookup, uid_of
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.scenarios.real import (
    MANAGERS,
    NODES,
    SCHEDULERS,
    deployment,
    ready_pods,
    run_real_cluster,
    standard,
    until_ready,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Skew
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

# Whose clock is set, and by how much: the seed says which, so that seeds 0, 1, 2, … go through all.
WHO = (MANAGERS[0], "api-1", NODES[0], SCHEDULERS[0], NODES[1])
STEPS_S = (40.0, -40.0, 400.0, -400.0, 3600.0, -3600.0, 86_400.0, -86_400.0)
SET_AT_S = 80.0  # Half of it is enough to start in, however late the deciding processes get their turns.
STAYS_S = 500.0  # Less than the ten minutes of a progress deadline.
STANDS = Key("default", "stands")
NEVER_READY = {"fathom.dev/simulated": '{"fail": "readiness"}'}


def one_clock_is_set(seed: str) -> Sequence[AnyFault]:
    """One clock is set, and later another one, as the next seed says."""
    number = int(seed) if seed.isdigit() else 0
    return [
        Skew(at_s=SET_AT_S + 200 * turn, target=WHO[index % len(WHO)], skew_s=STEPS_S[index % len(STEPS_S)])
        for turn, index in enumerate((number, number + 1))
    ]


class ClocksMoveNobody(Checker):
    """No node is tainted, and no pod is deleted or restarted, because a clock was set."""

    name = "setting a clock taints, deletes and restarts nothing"
    resources = frozenset({"nodes", "pods"})

    def commit(self, change: Seen) -> Found:
        if change.at_s < SET_AT_S:
            return None
        if change.resource == "nodes":
            taints = sorted(_taints(change.new) - _taints(change.old))
            return f"{change.by} added taints: {', '.join(taints)}" if taints else None
        if change.old is not None and (change.new is None or is_deleting(change.new)):
            return f"{change.by} deleted the pod"
        return f"{change.by} reports that a container was restarted" if _restarts(change.new) else None


def _taints(node: Obj | None) -> set[str]:
    return {str(taint.get("key")) for taint in lookup(node or {}, "spec", "taints") or ()}


def _restarts(pod: Obj | None) -> int:
    statuses = lookup(pod or {}, "status", "containerStatuses") or ()
    return sum(int(status.get("restartCount") or 0) for status in statuses)


def checkers() -> Sequence[Checker]:
    return [*standard(), ClocksMoveNobody()]


@scenario(Menu(processes=(MANAGERS[0], *NODES)), faults_of=one_clock_is_set, checkers=checkers)
async def clocks_are_set(world: World) -> None:
    """The wall clock of one process is set, and later that of another: no node is tainted, no pod is deleted
    or restarted, and a stuck rollout is not given up before its deadline."""
    run_real_cluster(world, spare=False)
    await world.apply(DEPLOYMENTS, alone_for_a_while("web", 6))
    await world.apply(DEPLOYMENTS, deployment("stands", 2))
    await until_ready(world, "web", 6, within_s=SET_AT_S / 2)
    await until_ready(world, "stands", 2, within_s=SET_AT_S / 2)
    await world.apply(DEPLOYMENTS, deployment("stands", 2, tag=2, notes=NEVER_READY))
    before = {uid_of(pod) for pod in ready_pods(world, "web")}
    await world.sleep(STAYS_S)
    assert {uid_of(pod) for pod in ready_pods(world, "web")} == before
    progressing = (
        find_condition(conditions_of(world.get("deployments.apps", STANDS) or {}), "Progressing") or {}
    )
    assert progressing.get("reason") != "ProgressDeadlineExceeded", progressing


def alone_for_a_while(name: str, replicas: int) -> Obj:
    """Its pods stop when their agent has not reached a server for a minute."""
    return deployment(name, replicas, notes={"fathom.dev/stop-when-alone-seconds": "60"})


SCENARIOS: tuple[Scenario, ...] = (clocks_are_set,)
