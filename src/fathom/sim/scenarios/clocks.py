"""Wall clocks are set, forward and back, by seconds and by days, while nothing else happens: what lasts is
counted on clocks that nobody sets, so nothing is evicted, tainted, restarted or rolled back."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, is_deleting, lookup, uid_of
from fathom.sim.scenarios.real import (
    DEPLOYMENTS,
    MANAGERS,
    NODES,
    SCHEDULERS,
    deployment,
    employ_cluster,
    ready_pods,
    standard,
    until_ready,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Skew
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

# Whose clock is set, and by how much: both follow from the seed, so that seeds 0, 1, 2, … go through all.
WHO = (MANAGERS[0], "api-1", NODES[0], SCHEDULERS[0], NODES[1])
STEPS_S = (40.0, -40.0, 400.0, -400.0, 3600.0, -3600.0, 86_400.0, -86_400.0)
SET_AT_S = 30.0
STAYS_S = 500.0  # Less than the ten minutes that a rollout has.
STANDS = Key("default", "stands")
NEVER_READY = {"fathom.dev/simulated": '{"fail": "readiness"}'}


def one_clock_is_set(seed: str) -> Sequence[AnyFault]:
    """And later the next one, by what the next seed says."""
    number = int(seed) if seed.isdigit() else 0
    return [
        Skew(at_s=SET_AT_S + 200 * turn, target=WHO[each % len(WHO)], skew_s=STEPS_S[each % len(STEPS_S)])
        for turn, each in enumerate((number, number + 1))
    ]


class ClocksMoveNobody(Checker):
    """Nothing is driven off a node, and no pod ends, because somebody set a clock."""

    name = "a clock that is set moves nobody"
    resources = frozenset({"nodes", "pods"})

    def commit(self, change: Seen) -> Found:
        if change.at_s < SET_AT_S:
            return None
        if change.resource == "nodes":
            taints = sorted(_taints(change.new) - _taints(change.old))
            return f"{change.by} taints it: {', '.join(taints)}" if taints else None
        if change.old is not None and (change.new is None or is_deleting(change.new)):
            return f"{change.by} takes it"
        return f"{change.by} says that a container was restarted" if _restarts(change.new) else None


def _taints(node: Obj | None) -> set[str]:
    return {str(one.get("key")) for one in lookup(node or {}, "spec", "taints") or ()}


def _restarts(pod: Obj | None) -> int:
    statuses = lookup(pod or {}, "status", "containerStatuses") or ()
    return sum(int(one.get("restartCount") or 0) for one in statuses)


def checkers() -> Sequence[Checker]:
    return [*standard(), ClocksMoveNobody()]


@scenario(Menu(processes=(MANAGERS[0], *NODES)), faults_of=one_clock_is_set, checkers=checkers)
async def clocks_are_set(world: World) -> None:
    """Somebody's wall clock is set, and somebody else's later: every node and every pod stays as it is, and
    a rollout that stands is not given up before its time."""
    employ_cluster(world, spare=False)
    await world.apply(DEPLOYMENTS, alone_for_a_while("web", 6))
    await world.apply(DEPLOYMENTS, deployment("stands", 2))
    await until_ready(world, "web", 6, within_s=SET_AT_S / 2)
    await until_ready(world, "stands", 2, within_s=SET_AT_S / 2)
    await world.apply(DEPLOYMENTS, deployment("stands", 2, tag=2, notes=NEVER_READY))
    before = {uid_of(pod) for pod in ready_pods(world, "web")}
    await world.sleep(STAYS_S)
    assert {uid_of(pod) for pod in ready_pods(world, "web")} == before
    said = find_condition(conditions_of(world.get("deployments.apps", STANDS) or {}), "Progressing") or {}
    assert said.get("reason") != "ProgressDeadlineExceeded", said


def alone_for_a_while(name: str, replicas: int) -> Obj:
    """Its pods end where no server is heard for a minute."""
    return deployment(name, replicas, notes={"fathom.dev/stop-when-alone-seconds": "60"})


SCENARIOS: tuple[Scenario, ...] = (clocks_are_set,)
