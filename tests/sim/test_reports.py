"""What the checkers of agents and of conditions take for right, and what for wrong."""

from __future__ import annotations

from typing import Any

from tests.sim.small import story
from tests.sim.small import told as ended

from fathom.agent.process import Agent
from fathom.agent.process import begin as begin_agent
from fathom.model.objects import Key, Obj, uid_of
from fathom.model.resources import PODS
from fathom.seams.seam import Ask
from fathom.sim.checkers.conditions import ConditionsStayAsTheyAre
from fathom.sim.checkers.containers import (
    InitComesFirst,
    NothingRunsUnwanted,
    OnlyWhatRunsIsReady,
    RestartsAreSpaced,
)
from fathom.sim.checkers.leaders import LeasesAreHeldOut
from fathom.sim.scenarios.nodes import OneFailureIsNone, scripted
from fathom.sim.world.invariants import Checker, Seen
from fathom.sim.world.world import World

BLIND = Ask("PATCH", "/api/v1/namespaces/default/pods/p/status", {"status": {"conditions": []}})


def told(checker: Checker, *steps: tuple[float, str, Obj]) -> Any:
    """What is found wrong first; each step is when, by whom, and what the object is then."""
    old: Obj | None = None
    for revision, (at_s, by, new) in enumerate(steps, 1):
        seen = Seen("pods", Key("default", "p"), revision, old, new, at_s, by, 1, ask=BLIND)
        found = checker.commit(seen)
        if found is not None:
            return found
        old = new
    return None


def pod(restarts: int = 0, *, ready: str = "True", conditions: list[Obj] | None = None) -> Obj:
    main = {"name": "main", "restartCount": restarts, "state": {"running": {}}}
    said = [{"type": "Ready", "status": ready}] if conditions is None else conditions
    meta = {"uid": "one", "name": "p", "namespace": "default", "labels": {"app": "falters"}}
    return {"metadata": meta, "status": {"containerStatuses": [main], "conditions": said}}


def test_a_container_that_is_restarted_ever_more_seldom_is_left_alone() -> None:
    assert told(RestartsAreSpaced(), (0, "node-1", pod()), (152, "node-1", pod(5))) is None


def test_a_container_that_is_restarted_all_the_time_is_found() -> None:
    found = told(RestartsAreSpaced(), (0, "node-1", pod()), (9, "node-1", pod(5)))
    assert found == "container main was restarted 5 times in 9 s"


def test_one_failed_probe_that_is_believed_is_found() -> None:
    found = told(OneFailureIsNone(), (0, "node-1", pod()), (1, "node-1", pod(ready="False")))
    assert found == "node-1 reports that p is no longer ready"


def serviced(status: str, since: str) -> list[Obj]:
    return [{"type": "Serviced", "status": status, "lastTransitionTime": since}]


def test_who_writes_back_what_another_has_changed_since_is_found() -> None:
    first, then = pod(conditions=serviced("True", "1")), pod(conditions=serviced("False", "5"))
    steps = ((0.0, "driver", first), (5.0, "driver", then), (6.0, "node-1", first))
    assert told(ConditionsStayAsTheyAre(), *steps) == (
        "node-1 undid a condition of another process: driver had set Serviced to False"
    )
    gone = (6.0, "node-1", pod(conditions=[]))
    assert told(ConditionsStayAsTheyAre(), *steps[:2], gone) is not None


def test_who_changes_their_mind_or_follows_another_is_left_alone() -> None:
    first, then = pod(conditions=serviced("True", "1")), pod(conditions=serviced("False", "5"))
    again = pod(conditions=serviced("True", "7"))
    steps = ((0.0, "manager-1", first), (5.0, "manager-2", then))
    assert told(ConditionsStayAsTheyAre(), *steps, (7.0, "node-1", again)) is None
    assert told(ConditionsStayAsTheyAre(), *steps, (7.0, "manager-1", first)) is None


def test_what_runs_and_is_not_there_any_more_is_found() -> None:
    """Whoever removes a pod at once does not ask the agent: an agent that does not look again goes on."""

    async def removed_at_once(world: World) -> None:
        world.process("node-1", begin_agent, node="node-1", driver="simulated")
        await world.until(lambda: bool(world.list("nodes")), within_s=60, what="there is a node")
        await world.apply(PODS, scripted("p", "sound", 0))
        await world.sleep(5)
        agent = world.state("node-1")
        assert isinstance(agent, Agent)
        agent.pods._gone = lambda uid: None  # type: ignore[method-assign]  # the bug
        await world.api.delete(PODS, "default", "p", uid=uid_of(world.list("pods")[0]), grace_s=0)
        await world.heal_and_settle()

    violation = ended(story(removed_at_once, checkers=lambda: (NothingRunsUnwanted(),))).violation
    assert violation is not None
    assert violation.invariant == NothingRunsUnwanted.name


def two_parts(first: Obj, main: Obj) -> Obj:
    status = {
        "initContainerStatuses": [{"name": "first", "state": first}],
        "containerStatuses": [{"name": "main", "state": main}],
    }
    return {"metadata": {"uid": "one"}, "status": status}


def test_a_main_container_that_is_begun_too_soon_is_found() -> None:
    runs: Obj = {"running": {"startedAt": "1"}}
    found = told(InitComesFirst(), (0, "node-1", two_parts(runs, runs)))
    assert found == "node-1 started main before first had ended"
    ended: Obj = {"terminated": {"exitCode": 0, "startedAt": "0"}}
    assert told(InitComesFirst(), (0, "node-1", two_parts(ended, runs))) is None


def lease(holder: str) -> Obj:
    return {"metadata": {"uid": "one"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 4}}


def test_a_lease_that_is_taken_before_its_time_is_up_is_found() -> None:
    mine, another = (0.0, "manager-1", lease("manager-1_a")), lease("manager-2_b")
    assert told(LeasesAreHeldOut(), mine, (4.0, "manager-2", another)) is None
    assert told(LeasesAreHeldOut(), mine, (3.0, "manager-2", another)) == (
        "manager-2_b took the lease from manager-1_a, which had renewed it 3.0 s before"
    )
    assert told(LeasesAreHeldOut(), mine, (1.0, "manager-1", lease("manager-1_c"))) is None


def test_what_is_said_to_be_ready_and_does_not_run_is_found() -> None:
    def bound(state: Obj, *, ready: bool) -> Obj:
        main = {"name": "main", "ready": ready, "state": state}
        said = [{"type": "Ready", "status": "True"}]
        status = {"containerStatuses": [main], "conditions": said}
        return {"metadata": {"uid": "one"}, "spec": {"nodeName": "node-1"}, "status": status}

    runs: Obj = {"running": {"startedAt": "1"}}
    assert told(OnlyWhatRunsIsReady(), (0, "node-1", bound(runs, ready=True))) is None
    assert told(OnlyWhatRunsIsReady(), (0, "node-1", bound({"terminated": {}}, ready=True))) is not None
    assert told(OnlyWhatRunsIsReady(), (0, "node-1", bound(runs, ready=False))) is not None
