"""A workload whose pods crash again and again is stuck once, and stays so until they run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.worlds import told
from tests.controllers.making import NOW_S, at, pod, replica_set

from fathom.controllers.progress.crash_loops import crash_loop, loops_of
from fathom.controllers.progress.last_actions import last_error
from fathom.controllers.progress.pod_stages import SERVING, stand_of
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.scenarios.real import deployment as probed
from fathom.sim.scenarios.real import run_real_cluster
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.world import World

pytestmark = pytest.mark.slow

PROGRESS = "workloadprogresses.fathom.dev"
WEB = Key("default", "deployment-web")


class StuckTold(Checker):
    """What was said of Stuck, one after the other; and how often the object was written."""

    name = "notes Stuck"
    resources = frozenset({PROGRESS})

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.writes_s: list[float] = []

    def commit(self, change: Seen) -> Found:
        stuck = find_condition(conditions_of(change.new or {}), "Stuck")
        if stuck is not None and change.key == WEB:
            said = (str(stuck["status"]), str(stuck["reason"]))
            self.writes_s.append(change.at_s)
            if not self.told or self.told[-1] != said:
                self.told.append(said)
        return None


def deployment(script: str) -> Obj:
    """Without a probe: whoever runs is ready."""
    made = probed("web", 2, notes={"fathom.dev/simulated": script})
    del made["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    made["spec"]["progressDeadlineSeconds"] = 2**31 - 1
    return made


def play(script: str, for_s: float, story: Any = None) -> StuckTold:
    notes = StuckTold()

    async def tell(world: World) -> None:
        run_real_cluster(world, nodes=("node-1",), spare=False)
        await world.sleep(5)
        await world.apply(DEPLOYMENTS, deployment(script))
        await world.sleep(for_s)
        if story is not None:
            await story(world)

    told(tell, checkers=[notes])
    return notes


def test_a_crash_loop_is_stuck_once_and_stays_so() -> None:
    async def crashed(world: World) -> None:
        pods = world.list("pods", "default")
        restarts = [lookup(one, "status", "containerStatuses")[0]["restartCount"] for one in pods]
        assert min(restarts) >= 5, f"the story needs a loop: {restarts}"

    notes = play('{"runs_s": 3, "exit_code": 1}', 1200, crashed)
    assert notes.told == [("False", "WithinDeadlines"), ("True", "Crash")]


def test_a_crash_loop_that_ends_is_no_longer_stuck() -> None:
    async def mended(world: World) -> None:
        await world.apply(DEPLOYMENTS, deployment("{}"))
        await world.sleep(120)

    notes = play('{"runs_s": 3, "exit_code": 1}', 900, mended)
    assert notes.told == [("False", "WithinDeadlines"), ("True", "Crash"), ("False", "WithinDeadlines")]


@pytest.mark.parametrize("script", ['{"fail": "crash", "fails": 1}', '{"runs_s": 400, "exit_code": 1}'])
@pytest.mark.full
def test_a_pod_that_restarts_and_runs_is_not_stuck(script: str) -> None:
    notes = play(script, 900)
    assert notes.told == [("False", "WithinDeadlines")]


def container(*, state: Obj, restarts: int, ran_s: float = 3, ended_s: float = 30) -> Obj:
    """`ended_s`: how long ago its last run ended, after `ran_s`."""
    ended = {"exitCode": 1, "startedAt": at(-ended_s - ran_s), "finishedAt": at(-ended_s)}
    last = {"lastState": {"terminated": ended}} if restarts else {}
    return {"name": "main", "restartCount": restarts, "state": state, **last}


def running(for_s: float) -> Obj:
    return {"running": {"startedAt": at(-for_s)}}


@pytest.mark.parametrize(
    ("one", "loops"),
    [
        (container(state={"waiting": {"reason": "CrashLoopBackOff"}}, restarts=1), True),
        (container(state={"waiting": {"reason": "ContainerCreating"}}, restarts=0), False),
        (container(state=running(1), restarts=0), False),
        (container(state=running(1), restarts=1), True),
        (container(state=running(25), restarts=1), False),
        (container(state=running(25), restarts=2), True),
        (container(state=running(599), restarts=9), True),
        (container(state=running(600), restarts=9), False),
        (container(state=running(1), restarts=9, ran_s=7200), False),
    ],
)
def test_who_has_run_for_as_long_as_it_was_waited_with_runs_well(one: Obj, loops: bool) -> None:
    found = crash_loop(pod("a", containerStatuses=[one]), now_s=NOW_S)
    assert (found is not None) == loops


def test_since_when_pods_crash_is_kept_while_one_of_then_is_there() -> None:
    crashed = [container(state=running(1), restarts=3)]
    old = pod("old", age_s=1000, containerStatuses=crashed)
    young = pod("young", age_s=100, containerStatuses=crashed)
    kept = (at(-500),)

    def since(*pods: Obj) -> set[float]:
        return {one.since_s for one in loops_of(pods, kept=kept, now_s=NOW_S).values()}

    assert since(old, young) == {NOW_S - 500}
    assert since(young) == {NOW_S - 30}
    assert since(pod("well")) == set()


def test_a_pod_that_is_ready_between_two_crashes_counts_as_ready_and_keeps_its_deadline() -> None:
    one = pod("a", containerStatuses=[container(state=running(1), restarts=5)])
    loop = loops_of([one], kept=(), now_s=NOW_S)["uid-a"]
    stand = stand_of(one, serves=True, crashes=loop)
    assert (stand.stage, stand.boundary, stand.deadline_s) == (SERVING, "crash", NOW_S - 30 + 300)
    assert stand.until_s == NOW_S - 1 + 320


def test_what_last_went_wrong_stays_said_while_it_runs_again() -> None:
    one = pod("a", containerStatuses=[container(state=running(1), restarts=1)])
    error = last_error(replica_set(), (), [one])
    assert error is not None
    assert (error.message, error.time) == ("a: exit code 1", at(-30))
