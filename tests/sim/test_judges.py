"""Judges of what is reserved, of what is said and of who is at work are not silent, and not too strict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import pytest
from tests.sim.small import scenario_run, story
from tests.sim.small import told as run

from fathom.agent.process import begin as begin_agent
from fathom.model.accounts import node_user
from fathom.model.decision import Decision, SeenVersions, Subject
from fathom.model.objects import Key, Obj
from fathom.model.well_known import DECISION_HEADER
from fathom.sim.checkers.available import AvailableIsEarned
from fathom.sim.checkers.finished_work import OverWhenNothingRuns
from fathom.sim.checkers.nodes import UnheardServeNobody
from fathom.sim.checkers.recreate_strategy import OneRevisionAtATime
from fathom.sim.checkers.reservations import WaitedForStaysReserved
from fathom.sim.checkers.status_rewrites import StatusIsNotRewritten
from fathom.sim.checkers.statuses import StoreFacts, budgets, policy_rollouts
from fathom.sim.checkers.workloads import JobsWithinBounds
from fathom.sim.scenarios.changing_hands import NobodyMakesTooMany
from fathom.sim.scenarios.nodes import at_rest
from fathom.sim.scenarios.preempting import VictimsAreLesser
from fathom.sim.world.faults import Skew
from fathom.sim.world.invariants import RESERVATIONS, Checker, Finding, Seen
from fathom.sim.world.process import SimProcess
from fathom.sim.world.world import World

NOBODY = cast(SimProcess, None)  # Who has decided: these judges do not ask.

# What is reserved.


def seen(resource: str, name: str, old: Obj | None, new: Obj | None) -> Seen:
    key = Key("default", name)
    return Seen(
        resource=resource, key=key, revision=1, old=old, new=new, at_s=0.0, by="repair", incarnation=1
    )


def pod(node: str = "", *, phase: str = "Pending") -> Obj:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": {"phase": phase}}


def reservation(phase: str, *, name: str = "r") -> Obj:
    meta = {"name": name, "annotations": {"fathom.dev/pod-uid": "u"}}
    spec = {"workload": {"name": "p", "uid": "u"}, "intent": "preempt"}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def released(*before: Seen, phase: str = "Released") -> object:
    """What is found wrong when it comes to this phase."""
    checker = WaitedForStaysReserved()
    for one in (*before, seen(RESERVATIONS, "r", None, reservation("Active"))):
        assert checker.commit(one) is None
    found = checker.commit(seen(RESERVATIONS, "r", reservation("Active"), reservation(phase)))
    return found.message if isinstance(found, Finding) else found


WAITS = seen("pods", "p", None, pod())


def test_a_reservation_that_is_released_while_its_pod_waits_is_found() -> None:
    assert released(WAITS) == "repair released r, but pods/default/p still waits for its room"


@pytest.mark.parametrize(
    "then",
    [
        seen("pods", "p", pod(), pod("node-1")),
        seen("pods", "p", pod(), pod(phase="Failed")),
        seen("pods", "p", pod(), None),
        seen(RESERVATIONS, "twin", None, reservation("", name="twin")),
    ],
    ids=["bound", "ended", "gone", "twin"],
)
def test_one_that_nobody_waits_for_may_be_released(then: Seen) -> None:
    assert released(WAITS, then) is None


@pytest.mark.parametrize("phase", ["Expired", "Bound"])
def test_one_whose_time_is_over_or_has_come_is_not_released(phase: str) -> None:
    assert released(WAITS, phase=phase) is None


# What budgets say.


class Store:
    """As much of a store as is read."""

    def __init__(self, **objects: Sequence[Obj]) -> None:
        self._objects = {"pods": (), **objects}

    def list(self, resource: str, namespace: str = "") -> list[Obj]:
        return list(self._objects.get(resource.partition(".")[0], ()))


def owned(kind: str, uid: str, owner: str = "", **spec: object) -> Obj:
    references = [{"kind": "x", "name": owner, "uid": owner, "controller": True}] if owner else []
    meta = {"namespace": "default", "name": uid, "uid": uid, "ownerReferences": references}
    return {"kind": kind, "metadata": {**meta, "labels": {"app": "web"}}, "spec": spec}


def said(limit: Obj, **status: int) -> list[str]:
    """What is wrong with a budget that says this, of three of four pods that are ready."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    pods = [{**owned("Pod", f"p-{number}", "set"), "status": ready} for number in range(3)]
    budget = owned("PodDisruptionBudget", "b", selector={"matchLabels": {"app": "web"}}, **limit)
    budget["status"] = status
    world = Store(
        pods=[*pods, owned("Pod", "p-3", "set")],
        replicasets=[owned("ReplicaSet", "set", "whole", replicas=9)],
        deployments=[owned("Deployment", "whole", replicas=4)],
        poddisruptionbudgets=[budget],
    )
    return [wrong for _, _, wrong in budgets(StoreFacts(world.list, ()))]


@pytest.mark.parametrize(
    ("limit", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 1),
        ({"maxUnavailable": 1}, 3, 0),
        ({"maxUnavailable": "30%"}, 2, 1),
        ({"minAvailable": "30%"}, 2, 1),
    ],
)
def test_budgets_of_every_sort_are_counted_again(limit: Obj, desired: int, allowed: int) -> None:
    right = {"currentHealthy": 3, "desiredHealthy": desired, "expectedPods": 4, "disruptionsAllowed": allowed}
    assert said(limit, **right) == []
    assert said(limit, **{**right, "disruptionsAllowed": 2}) == [
        f"disruptionsAllowed is reported as 2, but is {allowed}"
    ]


# What rollouts of a policy say.


def test_a_rollout_of_a_policy_that_is_over_tries_nothing_out() -> None:
    def wrong(**status: object) -> list[str]:
        rollout = owned("PolicyRollout", "r", to="v5")
        rollout["metadata"]["generation"] = 1
        rollout["status"] = {"observedGeneration": 1, "active": "v4", **status}
        return [one for *_, one in policy_rollouts(StoreFacts(Store(policyrollouts=[rollout]).list, ()))]

    assert wrong(phase="RolledBack", canary="", percent=0) == []
    assert wrong(phase="RolledBack", canary="v5") == ["canary is reported as 'v5', but is ''"]
    assert wrong(phase="Complete") == ["active is reported as 'v4', but is 'v5'"]
    assert wrong(phase="Complete", observedGeneration=0) == []
    assert wrong(phase="Canary", canary="v5", percent=10) == []


# Workloads, told one change after another.


def told(checker: Checker, *changes: tuple[float, str, Obj | None, Obj | None]) -> str | None:
    """The first thing found wrong, in words."""
    for at_s, resource, old, new in changes:
        key = Key("default", str((new or old or {})["metadata"]["name"]))
        change = Seen(
            resource=resource, key=key, revision=1, old=old, new=new, at_s=at_s, by="x", incarnation=1
        )
        found = checker.commit(change)
        if found is not None:
            return found.message if isinstance(found, Finding) else found
    return None


def running(name: str, owner: str, *, ready: bool = True, node: str = "node-1") -> Obj:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    made = owned("Pod", name, owner, nodeName=node)
    return {**made, "status": {"phase": "Running", "conditions": conditions}}


def by_replica_set(decision: str, view: int, *, verdict: str) -> Decision:
    """A decision about a ReplicaSet, which saw the pods at this revision."""
    return Decision(
        id=decision,
        time_ns=0,
        controller="replicasets",
        subject=Subject("replicasets.apps", "default", "set"),
        verdict=verdict,
        seen={"Pod": SeenVersions(view)},
    )


RECREATED = (
    (0.0, "deployments.apps", None, owned("Deployment", "d", strategy={"type": "Recreate"})),
    (0.0, "replicasets.apps", None, owned("ReplicaSet", "old", "d")),
    (0.0, "replicasets.apps", None, owned("ReplicaSet", "new", "d")),
)


def test_a_new_revision_beside_an_old_one_that_is_going_is_found() -> None:
    old, going = running("p", "old"), running("p", "old")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    before = (*RECREATED, (1.0, "pods", None, old), (2.0, "pods", old, going))
    new = running("q", "new")
    assert told(OneRevisionAtATime(), *before, (3.0, "pods", None, new)) == (
        "q was created, but p of an older revision still run"
    )
    assert told(OneRevisionAtATime(), *before, (3.0, "pods", going, None), (4.0, "pods", None, new)) is None


def test_who_was_not_ready_for_long_enough_is_not_available() -> None:
    def said(available: int) -> Obj:
        made = owned("ReplicaSet", "old", "d", minReadySeconds=10)
        return {**made, "status": {"availableReplicas": available}}

    ready, sick = running("p", "old"), running("p", "old", ready=False)
    begun = ((0.0, "replicasets.apps", None, said(0)), (1.0, "pods", None, ready))
    too_soon = (4.0, "replicasets.apps", said(0), said(1))
    assert told(AvailableIsEarned(), *begun, too_soon) == (
        "replicasets.apps/default/old reports 1 available pods; 0 were ready for long enough"
    )
    in_time = (12.0, "replicasets.apps", said(0), said(1))
    assert told(AvailableIsEarned(), *begun, in_time) is None
    # It was so in the view that this is said from.
    assert told(AvailableIsEarned(), *begun, (11.5, "pods", ready, sick), in_time) is None


@pytest.mark.parametrize(
    ("view", "wrong"),
    [
        (2, None),
        (3, "replicasets.apps/default/old reports 1 available pods; 0 were ready for long enough"),
        (None, None),  # No decision is on record: its view may be old.
    ],
)
def test_a_pod_is_ready_for_as_long_as_a_view_shows_it_ready(view: int | None, wrong: str | None) -> None:
    """1. A pod is ready, and two seconds later it is not. 2. A leader that has not heard of that reports it
    as available when it would have been ready for long enough."""

    def said(available: int) -> Obj:
        made = owned("ReplicaSet", "old", "d", minReadySeconds=10)
        return {**made, "status": {"availableReplicas": available}}

    ready, sick = running("p", "old"), running("p", "old", ready=False)
    checker, headers = AvailableIsEarned(), ((DECISION_HEADER, "d-1"),)
    if view is not None:
        checker.decided(NOBODY, by_replica_set("d-1", view, verdict="status"))
    replica_set, pod_key = Key("default", "old"), Key("default", "p")
    changes = (
        Seen("replicasets.apps", replica_set, 1, None, said(0), 0.0, "x", 1),
        Seen("pods", pod_key, 2, None, ready, 1.0, "x", 1),
        Seen("pods", pod_key, 3, ready, sick, 3.0, "x", 1),
        Seen("replicasets.apps", replica_set, 4, said(0), said(1), 12.0, "x", 1, headers=headers),
    )
    assert [checker.commit(change) for change in changes] == [None, None, None, wrong]


def test_a_pod_is_as_old_as_its_agent_wrote_by_a_clock_that_may_be_ahead() -> None:
    def said(available: int) -> Obj:
        made = owned("ReplicaSet", "old", "d", minReadySeconds=100)
        return {**made, "status": {"availableReplicas": available}}

    async def no_story(world: World) -> None: ...

    def judge(*skews_s: float) -> Checker:
        steps = [Skew(at_s=3.0, target="worker", skew_s=each) for each in skews_s]
        checker = AvailableIsEarned()
        checker.begin(scenario_run(story(no_story), steps).world)
        return checker

    begun = ((0.0, "replicasets.apps", None, said(0)), (1.0, "pods", None, running("p", "old")))
    early, late = ((at_s, "replicasets.apps", said(0), said(1)) for at_s in (2.0, 20.0))
    wrong = "replicasets.apps/default/old reports 1 available pods; 0 were ready for long enough"
    assert told(judge(400.0), *begun, late) is None
    assert told(judge(40.0, -400.0), *begun, late) == wrong
    assert told(judge(400.0), *begun, early) == wrong  # No clock is set yet.
    never = (1.0, "pods", None, running("p", "old", ready=False))
    assert told(judge(400.0), begun[0], never, late) == wrong
    # What the agent wrote may be stored later.
    slow = running("p", "old")
    slow["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:01Z"
    after_100_s = (102.0, "replicasets.apps", said(0), said(1))
    assert told(judge(), begun[0], (50.0, "pods", None, slow), after_100_s) is None
    assert told(judge(), begun[0], (50.0, "pods", None, running("p", "old")), after_100_s) == wrong


def test_an_agent_that_renews_its_lease_no_longer_is_found() -> None:
    async def an_agent_dies(world: World) -> None:
        account = node_user("node-1")
        world.process(
            "node-1",
            begin_agent,
            account=account,
            node="node-1",
            driver="simulated",
            renew_s=2.0,
            status_s=3.0,
        )
        await world.sleep(10)
        world.kill("node-1")
        await world.sleep(10)
        await world.settle(quiet_s=5)

    violation = run(story(an_agent_dies, checkers=lambda: at_rest("node-1"))).violation
    assert violation is not None
    assert (violation.invariant, violation.message) == (
        "every running agent has a node and renews its lease",
        "node-1 runs, but it last renewed its lease 100 s ago",
    )


def test_pods_that_stay_ready_where_nobody_is_heard_are_found() -> None:
    def node(*taints: str) -> Obj:
        return owned("Node", "node-1", taints=[{"key": key, "effect": "NoExecute"} for key in taints])

    unheard = (10.0, "nodes", node(), node("node.kubernetes.io/unreachable"))
    heard_again = (30.0, "nodes", node("node.kubernetes.io/unreachable"), node())
    ready, out = running("p", "old"), running("p", "old", ready=False)
    begun, later = (0.0, "pods", None, ready), (50.0, "nodes", node(), node())
    assert told(UnheardServeNobody(), begun, unheard, heard_again, later) is None
    assert told(UnheardServeNobody(), begun, unheard, (15.0, "pods", ready, out), later) is None
    still = (50.0, "nodes", node(), node("node.kubernetes.io/unreachable"))
    assert told(UnheardServeNobody(), begun, unheard, still) == (
        "node-1 is unreachable since second 10, but pods/default/p is ready"
    )
    back = ((15.0, "pods", ready, out), (49.0, "pods", out, ready))
    assert told(UnheardServeNobody(), begun, unheard, *back, still) is None


def test_a_job_that_is_suspended_wants_no_pods() -> None:
    def job(*, suspend: bool) -> Obj:
        return owned("Job", "j", parallelism=2, suspend=suspend)

    suspended, pod_ = (0.0, "jobs.batch", None, job(suspend=True)), (1.0, "pods", None, running("p", "j"))
    resumed = (0.5, "jobs.batch", job(suspend=True), job(suspend=False))
    assert told(JobsWithinBounds(), suspended, pod_) == "p: 1 live, at most 0 wanted"
    assert told(JobsWithinBounds(), suspended, resumed, pod_) is None


def test_a_job_that_is_over_while_a_pod_of_it_is_going_is_found() -> None:
    def job(*types: str) -> Obj:
        conditions = [{"type": one, "status": "True"} for one in types]
        return {**owned("Job", "j"), "status": {"conditions": conditions}}

    came = (1.0, "pods", None, running("p", "j"))
    over = (3.0, "jobs.batch", job("FailureTarget"), job("FailureTarget", "Failed"))
    ended = {**running("p", "j"), "status": {"phase": "Failed"}}
    assert told(OverWhenNothingRuns(), came, over) == "Job j is marked finished, but p still run"
    assert told(OverWhenNothingRuns(), came, (2.0, "pods", running("p", "j"), ended), over) is None


# Who is evicted.


@pytest.mark.parametrize(
    ("sent_s", "wrong"),
    [
        (4.0, None),
        (5.0, None),
        (6.0, "scheduler-1 evicted victim while no pod of higher priority waited"),
        (None, "scheduler-1 evicted victim while no pod of higher priority waited"),
    ],
)
def test_an_eviction_is_judged_by_who_waited_when_it_was_sent(
    sent_s: float | None, wrong: str | None
) -> None:
    high = {**owned("Pod", "high"), "spec": {"priority": 9}}
    bound = {**high, "spec": {"priority": 9, "nodeName": "node-1"}}
    victim = {**owned("Pod", "victim"), "spec": {"nodeName": "node-1"}}
    checker = VictimsAreLesser()
    came, was_bound = (0.0, "pods", None, high), (5.0, "pods", high, bound)
    assert told(checker, came, was_bound) is None
    key = Key("default", "victim")
    assert checker.commit(Seen("pods", key, 9, victim, None, 8.0, "scheduler-1", 1, sent_s=sent_s)) == wrong


@pytest.mark.parametrize(
    ("marked_s", "by", "wrong"),
    [
        (4.9, "scheduler-1", None),
        (5.1, "scheduler-1", "scheduler-1 evicted victim while no pod of higher priority waited"),
        (4.9, "scheduler-2", "scheduler-1 evicted victim while no pod of higher priority waited"),
    ],
    ids=["begun before", "begun after", "begun by another"],
)
def test_an_eviction_that_was_begun_may_go_on_when_the_pod_it_is_for_is_gone(
    marked_s: float, by: str, wrong: str | None
) -> None:
    """Nobody who sends two requests one after another knows what happens in between."""
    high = {**owned("Pod", "high"), "spec": {"priority": 9}}
    victim = {**owned("Pod", "victim"), "spec": {"nodeName": "node-1"}}
    marked = {**victim, "status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}
    checker = VictimsAreLesser()
    assert told(checker, (0.0, "pods", None, high), (5.0, "pods", high, None)) is None
    key = Key("default", "victim")
    assert checker.commit(Seen("pods", key, 8, victim, marked, 5.2, by, 1, sent_s=marked_s)) is None
    assert checker.commit(Seen("pods", key, 9, marked, None, 5.4, "scheduler-1", 1, sent_s=5.3)) == wrong


# Statuses that are written again.


def test_each_condition_may_be_written_for_its_numbers_once_a_minute() -> None:
    def lacking(failure: int, retry: int) -> Obj:
        conditions = [
            {"type": "ReplicaFailure", "status": "True", "message": f"{failure} pods are used"},
            {"type": "Reconciling", "status": "True", "message": f"{retry} pods are used"},
        ]
        return {**owned("ReplicaSet", "set", replicas=2), "status": {"conditions": conditions}}

    checker, rewritten = StatusIsNotRewritten(), []
    states = [lacking(8, 8), lacking(9, 8), lacking(9, 9), lacking(9, 10)]
    for second, (old, new) in enumerate(pairwise(states)):
        change = Seen("replicasets.apps", Key("default", "set"), 9, old, new, float(second), "manager-1", 1)
        rewritten.append(checker.commit(change))
    again = "manager-1 rewrote replicasets.apps/default/set for numbers alone, 1.0 s after the last such"
    assert rewritten == [None, None, f"{again} write"]


# Pods beyond what their ReplicaSet wants.


def child_of_two(
    name: str, by: str, revision: int, *, decision: str = "", view: int = 0, checker: NobodyMakesTooMany
) -> object:
    """What is found wrong when this pod of a ReplicaSet that wants two is committed."""
    if decision:
        checker.decided(NOBODY, by_replica_set(decision, view, verdict="create"))
    new = {**owned("Pod", name, "set"), "spec": {}, "status": {"phase": "Running"}}
    new["metadata"]["labels"] = {"app": "set"}
    headers = ((DECISION_HEADER, decision),)
    key = Key("default", name)
    return checker.commit(Seen("pods", key, revision, None, new, 0.0, by, 1, headers=headers))


@pytest.mark.parametrize(
    ("by", "view", "wrong"),
    [
        ("driver", 19, None),
        ("driver", 20, "manager-1 makes late the 3th pod of set"),
        ("manager-2", 19, "manager-1 makes late the 3th pod of set"),
    ],
    ids=["given since", "given before", "made by another manager"],
)
def test_pods_count_that_a_replica_set_has_made_or_could_have_seen(
    by: str, view: int, wrong: str | None
) -> None:
    checker = NobodyMakesTooMany()
    owner = owned("ReplicaSet", "set", replicas=2)
    checker.commit(Seen("replicasets.apps", Key("default", "set"), 1, None, owner, 0.0, "driver", 1))
    assert child_of_two("first", "manager-1", 10, checker=checker) is None
    assert child_of_two("second", by, 20, checker=checker) is None
    made = child_of_two("late", "manager-1", 30, decision="d", view=view, checker=checker)
    assert made == wrong
