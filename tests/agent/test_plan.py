"""What is to be done about a pod's containers: rows of what is wanted, what is seen, and the plan."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.agent.objects import T0, WELL, alive, container, ended, over, pod, run, s

from fathom.agent.container_views import ContainerTrouble, ContainerView, Health
from fathom.agent.plan import KillContainer, PodPlan, StartContainer, StopContainer, phase_at_end, plan_pod
from fathom.model.objects import Obj

INIT, SIDECAR = container("prepare"), container("proxy", restartPolicy="Always")
# A server leaves out fractions: the grace is over a second later.
DELETED = {"deletionTimestamp": "2026-01-01T00:00:29Z"}
SICK = Health(sick="liveness")


def plan(wanted: Obj, now: float = 0, *, orphan: bool = False, **views: ContainerView) -> PodPlan:
    return plan_pod(wanted, views, now_ns=s(now), orphan=orphan)


ROWS: list[tuple[str, Obj, float, dict[str, Any], PodPlan]] = [
    ("a new pod's containers start together", pod(container("a"), container("b")), 0, {},
     PodPlan((StartContainer("a", 0), StartContainer("b", 0)))),
    ("what runs is left alone", pod(), 0, {"main": alive()}, PodPlan()),
    ("what is being started is not started again", pod(), 0, {"main": ContainerView(busy=True)}, PodPlan()),
    ("the first restart is at once", pod(), 2, {"main": over(1)}, PodPlan((StartContainer("main", 1, 1),))),
    ("the second waits ten seconds", pod(), 2, {"main": over(1, attempt=1, crashes=1)}, PodPlan((), s(11))),
    ("and then happens", pod(), 11, {"main": over(1, attempt=1, crashes=1)},
     PodPlan((StartContainer("main", 2, 2),))),
    ("a container that ran long starts over without waiting", pod(), 700,
     {"main": over(1, attempt=9, after=650, crashes=8)}, PodPlan((StartContainer("main", 10, 0),))),
    ("an image that is not there is tried again later", pod(), 3,
     {"main": ContainerView(trouble=ContainerTrouble("ErrImageNeverPull", "no", s(1)))}, PodPlan((), s(11))),
    ("unless it has another image by now", pod(container(image="new")), 3,
     {"main": ContainerView(trouble=ContainerTrouble("ErrImageNeverPull", "no", s(1), 7, "old"))},
     PodPlan((StartContainer("main", 0),))),
    ("a ConfigMap that is missing is looked for soon, however often that was in vain", pod(), 3,
     {"main": ContainerView(trouble=ContainerTrouble("CreateContainerConfigError", "no", s(1), 9))},
     PodPlan((), s(6))),
    ("an init container goes first, alone", pod(container(), init=(INIT,)), 0, {},
     PodPlan((StartContainer("prepare", 0),))),
    ("nothing else starts while it runs", pod(container(), init=(INIT,)), 0, {"prepare": alive("prepare")},
     PodPlan()),
    ("main containers follow when it went well", pod(container(), init=(INIT,)), 2,
     {"prepare": over(0, "prepare")}, PodPlan((StartContainer("main", 0),))),
    ("an init container that failed is tried again", pod(container(), init=(INIT,)), 2,
     {"prepare": over(1, "prepare")}, PodPlan((StartContainer("prepare", 1, 1),))),
    ("unless nothing is ever restarted: then the pod has ended",
     pod(container(), init=(INIT,), policy="Never"), 2, {"prepare": over(1, "prepare")}, PodPlan(over=True)),
    ("an init container does not run again when main containers have", pod(container(), init=(INIT,)), 2,
     {"main": over(1)}, PodPlan((StartContainer("main", 1, 1),))),
    ("a sidecar lets the others start once it has started", pod(container(), init=(SIDECAR,)), 0,
     {"proxy": alive("proxy")}, PodPlan((StartContainer("main", 0),))),
    ("and not before its startup probe passed", pod(container(), init=(SIDECAR,)), 0,
     {"proxy": alive("proxy", health=Health())}, PodPlan()),
    ("a sidecar that ends is started again", pod(container(), init=(SIDECAR,)), 2,
     {"proxy": over(0, "proxy"), "main": alive()}, PodPlan((StartContainer("proxy", 1, 1),))),
    ("when all work is done the sidecar is ended", pod(container(), init=(SIDECAR,), policy="Never"), 2,
     {"proxy": alive("proxy"), "main": over(0)},
     PodPlan((StopContainer("proxy", s(32), "the pod has ended"),), s(32))),
    ("a sick container is ended with its grace", pod(), 5, {"main": alive(health=SICK)},
     PodPlan((StopContainer("main", s(35), "liveness"),))),
    ("a container whose image changed is started anew", pod(), 5,
     {"main": ContainerView(run=msgspec.structs.replace(run(), image="old"))},
     PodPlan((StopContainer("main", s(35), "Container main definition changed, will be restarted"),))),
    ("who was told to end is waited for", pod(), 10, {"main": alive(kill_ns=s(35))}, PodPlan((), s(35))),
    ("and killed when its time is over", pod(), 35, {"main": alive(kill_ns=s(35))},
     PodPlan((KillContainer("main"),))),
    ("a deleted pod's containers are told to end", pod(metadata=DELETED), 0, {"main": alive()},
     PodPlan((StopContainer("main", s(30), "the pod is being deleted"),), s(30))),
    ("sidecars stay until the others have ended", pod(container(), init=(SIDECAR,), metadata=DELETED), 0,
     {"proxy": alive("proxy"), "main": alive(kill_ns=s(30))}, PodPlan((), s(30))),
    ("and are then told to end", pod(container(), init=(SIDECAR,), metadata=DELETED), 5,
     {"proxy": alive("proxy"), "main": over(143)},
     PodPlan((StopContainer("proxy", s(30), "the pod is being deleted"),), s(30))),
    ("a shorter grace, given later, counts",
     pod(metadata={"deletionTimestamp": "2026-01-01T00:00:01Z", "deletionGracePeriodSeconds": 0}), 1,
     {"main": alive(kill_ns=s(30))},
     PodPlan((KillContainer("main"),))),
    ("a deleted pod of which nothing runs is over", pod(metadata=DELETED), 0, {"main": over(143)},
     PodPlan(over=True)),
    ("a deleted pod is not started", pod(metadata=DELETED), 0, {}, PodPlan(over=True)),
    ("a start under way is waited for", pod(metadata=DELETED), 0, {"main": ContainerView(busy=True)},
     PodPlan()),
    ("a deadline is looked at when it comes",
     pod(spec={"activeDeadlineSeconds": 60}, status={"startTime": "2026-01-01T00:00:00Z"}), 1,
     {"main": alive()}, PodPlan((), s(60))),
    ("and ends the pod",
     pod(spec={"activeDeadlineSeconds": 60}, status={"startTime": "2026-01-01T00:00:00Z"}), 60,
     {"main": alive()}, PodPlan((StopContainer("main", s(90), "the pod has ended"),), s(90))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "now", "views", "expected"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_the_plan_of_a_pod(
    wanted: Obj, now: float, views: dict[str, ContainerView], expected: PodPlan
) -> None:
    assert plan_pod(wanted, views, now_ns=s(now)) == expected


def test_a_pod_that_asks_for_it_is_stopped_when_no_server_has_been_heard_for_so_long() -> None:
    shy = pod(metadata={"annotations": {"fathom.dev/stop-when-alone-seconds": "60"}})

    def planned(wanted: Obj, now: float, view: ContainerView) -> PodPlan:
        return plan_pod(wanted, {"main": view}, now_ns=s(now), heard_ns=s(0))

    why = "the API server has accepted no heartbeat for too long"
    assert planned(shy, 59, alive()) == PodPlan((), s(60))
    assert planned(shy, 60, alive()) == PodPlan((StopContainer("main", s(90), why),), s(90))
    assert planned(shy, 61, over(143)) == PodPlan()  # It waits, and is not started again.
    assert plan_pod(shy, {"main": over(143)}, now_ns=s(61), heard_ns=s(61)).actions == (
        StartContainer("main", 1, 1),
    )
    assert planned(pod(), 10_000, alive()) == PodPlan()
    hasty = pod(metadata={"annotations": {"fathom.dev/stop-when-alone-seconds": "1"}})
    assert planned(hasty, 29, alive()) == PodPlan((), s(30))


def test_a_pod_that_the_api_does_not_have_any_more_is_ended_at_once() -> None:
    """`kubectl delete --force --grace-period=0` does not leave a program behind for its time of grace."""
    assert plan(pod(), orphan=True, main=alive()) == PodPlan(
        (StopContainer("main", s(1), "the pod no longer exists in the API"),), s(1)
    )


def test_the_probe_that_ends_a_container_says_how_long_that_may_take() -> None:
    probes = {
        "startupProbe": {"terminationGracePeriodSeconds": 3},
        "livenessProbe": {"terminationGracePeriodSeconds": 7},
    }
    outdated = ContainerView(run=msgspec.structs.replace(run(), image="old"), health=WELL)
    for view, at in (
        (alive(health=Health(started=True, sick="dead")), 7),
        (alive(health=Health(sick="slow")), 3),
        (outdated, 30),
    ):
        wanted = pod({**container(), **probes})
        stops = [one for one in plan(wanted, main=view).actions if isinstance(one, StopContainer)]
        assert [one.kill_ns for one in stops] == [s(at)]


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Always", 0, ""), ("Always", 1, ""), ("OnFailure", 0, "Succeeded"), ("OnFailure", 1, ""),
        ("Never", 0, "Succeeded"), ("Never", 3, "Failed"),
    ],
)  # fmt: skip
def test_how_a_pod_ends_follows_from_its_policy_and_code(policy: str, code: int, expected: str) -> None:
    assert phase_at_end(pod(policy=policy), {"main": over(code)}, now_ns=T0) == expected


WHEN_42 = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
UNLESS_3 = [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [3]}}]


@pytest.mark.parametrize(
    ("policy", "own", "code", "expected"),
    [
        ("Always", {"restartPolicy": "Never"}, 1, "Failed"),
        ("Always", {"restartPolicy": "OnFailure"}, 0, "Succeeded"),
        ("Never", {"restartPolicy": "OnFailure"}, 1, ""),
        ("Never", {"restartPolicy": "Always"}, 0, ""),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": WHEN_42}, 42, ""),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": WHEN_42}, 1, "Failed"),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": UNLESS_3}, 3, "Failed"),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": UNLESS_3}, 4, ""),
    ],
)  # fmt: skip
def test_a_containers_rules_go_before_its_policy_and_that_before_the_pods(
    policy: str, own: Obj, code: int, expected: str
) -> None:
    wanted = pod({**container(), **own}, policy=policy)
    assert phase_at_end(wanted, {"main": over(code)}, now_ns=T0) == expected


ANEW_88 = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]


def test_one_containers_end_can_start_all_of_them_anew() -> None:
    watch = container("watch", restartPolicy="Never", restartPolicyRules=ANEW_88)
    wanted = pod(watch, container("work"), init=(INIT,), policy="Never")
    before = {"prepare": over(0, "prepare"), "work": alive("work"), "watch": over(88, "watch", after=5)}

    def planned(**views: ContainerView) -> tuple[object, ...]:
        assert phase_at_end(wanted, before | views, now_ns=s(9)) == ""
        return plan_pod(wanted, before | views, now_ns=s(9)).actions

    assert planned() == (KillContainer("work"),)
    assert planned(work=alive("work", killed=True)) == ()
    ended_ = {"work": over(137, "work", after=6)}
    assert planned(**ended_) == (StartContainer("prepare", 1, 1),)
    prepared = ended_ | {"prepare": over(0, "prepare", 1, at=6)}
    assert planned(**prepared) == (StartContainer("watch", 1, 1), StartContainer("work", 1, 1))
    # Whoever began first is of the new time; what it was before still tells that the other is not.
    watching = ContainerView(run=run("watch", 1, at=8), previous=ended(88, "watch", after=5), health=WELL)
    assert planned(**prepared, watch=watching) == (StartContainer("work", 1, 1),)
    working = ContainerView(run=run("work", 1, at=8), previous=ended(137, "work", after=6), health=WELL)
    assert planned(**(prepared | {"work": working}), watch=watching) == ()


def test_an_init_container_that_is_never_restarted_ends_a_pod_that_is() -> None:
    once = {**INIT, "restartPolicy": "Never"}
    assert (
        phase_at_end(pod(container(), init=(once,)), {"prepare": over(1, "prepare")}, now_ns=T0) == "Failed"
    )


def test_waits_double_up_to_five_minutes() -> None:
    waits = []
    for crashes in range(8):
        again = plan(pod(), 1, main=ContainerView(run=ended(1, attempt=crashes, after=0, crashes=crashes)))
        waits.append(0 if again.look_ns is None else (again.look_ns - T0) // 10**9)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
