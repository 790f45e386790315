"""How many replicas an autoscaler asks for, objects in and decision out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.controllers.making import NOW, NOW_S, at, meta, pod

from fathom.client.api import Resource
from fathom.controllers.autoscaler.plan import (
    NEEDS,
    AutoscalerFacts,
    ReplicaDecision,
    decide,
    plan_autoscaler,
    rivals_of,
)
from fathom.controllers.autoscaler.plan_behavior import (
    History,
    ScaleStep,
    WantedReplicas,
    least,
    most,
    stabilized,
)
from fathom.controllers.autoscaler.plan_metrics import MeasuredUse, Proposal, UnknownUse, propose
from fathom.controllers.autoscaler.samples import PodSample
from fathom.controllers.autoscaler.scale_target import as_workload
from fathom.model.decision import Considered
from fathom.model.objects import Obj

CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
MILLI = 1_000_000


def autoscaler(
    low: int = 1, high: int = 10, *, metric: Obj = CPU, status: Obj | None = None, **spec: Any
) -> Obj:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    given = {
        "scaleTargetRef": reference,
        "minReplicas": low,
        "maxReplicas": high,
        "metrics": [metric],
        **spec,
    }
    return {"metadata": meta("web"), "spec": given, "status": status or {}}


def workload(replicas: int, generation: int = 1) -> Obj:
    made = meta("web", generation=generation)
    return {"kind": "Deployment", "metadata": made, "spec": {"replicas": replicas}}


def asking(name: str, *, milli: int = 100, **options: Any) -> Obj:
    made = pod(name, **options)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{milli}m"}}
    return made


def sample(milli: int, **options: Any) -> PodSample:
    return PodSample({"main": {"cpu": milli * MILLI}}, **options)


def proposed(metric: Obj, found: AutoscalerFacts, **options: Any) -> Proposal | UnknownUse:
    return propose(metric, MeasuredUse(found.pods, found.samples, len(found.pods), NOW_S, **options))


def replicas_of(found: Proposal | UnknownUse) -> int:
    assert isinstance(found, Proposal), found
    return found.replicas


def scene(replicas: int, *uses: int, ready: int | None = None, **options: Any) -> AutoscalerFacts:
    """As many pods as replicas, each asking for 100m; the first ones use so much."""
    pods = [asking(f"p{n}") for n in range(replicas)]
    samples = {f"p{n}": sample(use) for n, use in enumerate(uses)}
    count = replicas if ready is None else ready
    current = {"desired": replicas, "ready": count, "pendingReasons": [{"reason": "quota/eu"}]}
    progress = {"status": {"observedGeneration": 1, "current": current}}
    return AutoscalerFacts(
        **{"workload": workload(replicas), "pods": pods, "samples": samples, "progress": progress, **options}
    )


def said(found: ReplicaDecision) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in found.statuses}


# Use.


@pytest.mark.parametrize(
    ("uses", "replicas"),
    [((50, 50), 2), ((52, 52), 2), ((100, 100), 4), ((75, 75), 3), ((10, 10), 1), ((60, 60), 3)],
)
def test_replicas_follow_the_share_of_what_pods_ask_for(uses: tuple[int, ...], replicas: int) -> None:
    assert replicas_of(proposed(CPU, scene(2, *uses))) == replicas


def test_what_is_shown_is_what_was_measured() -> None:
    found = proposed(CPU, scene(2, 80, 60))
    assert isinstance(found, Proposal)
    current = {"averageValue": "70m", "averageUtilization": 70}
    assert found.metric == {"type": "Resource", "resource": {"name": "cpu", "current": current}}


def test_a_pod_without_a_sample_is_idle_when_growing_and_busy_when_shrinking() -> None:
    # 120 of 100 wanted over two, not over one.
    assert replicas_of(proposed(CPU, scene(2, 120))) == 3
    assert replicas_of(proposed(CPU, scene(3, 10, 10))) == 3


def test_an_average_value_is_a_target_too() -> None:
    target = {"type": "AverageValue", "averageValue": "40m"}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    assert replicas_of(proposed(metric, scene(2, 80, 80))) == 4
    # One without a sample is taken to be at the target, whatever it asks for.
    assert replicas_of(proposed(metric, scene(4, 10, 10, 10))) == 2


def test_without_requests_a_share_means_nothing() -> None:
    found = proposed(CPU, AutoscalerFacts(None, pods=[pod("p0")], samples={"p0": sample(1)}))
    words = "failed to get cpu utilization: missing request for cpu in container main of Pod p0"
    assert found == UnknownUse("FailedGetResourceMetric", words)


# The decision.


def test_load_makes_it_grow_within_its_bounds() -> None:
    found = decide(autoscaler(), scene(2, 100, 100), now=NOW)
    assert found.replicas == 4
    assert said(found) == {
        "AbleToScale": ("True", "ReadyForNewScale"),
        "ScalingActive": ("True", "ValidMetricFound"),
        "ScalingLimited": ("False", "DesiredWithinRange"),
    }
    assert decide(autoscaler(high=3), scene(2, 100, 100), now=NOW).replicas == 3


def test_growth_is_bounded_by_policies_however_high_the_load() -> None:
    found = decide(autoscaler(high=100), scene(2, 5000, 5000), now=NOW)
    assert (found.replicas, said(found)["ScalingLimited"]) == (6, ("True", "ScaleUpLimit"))


@pytest.mark.parametrize(
    ("reason", "word"),
    [("quota/eu", "HeldByQuota"), ("scheduler", "HeldByScheduler"), ("topology/zone", "HeldByTopology"),
     ("image", "HeldByStartUp"), ("probe", "HeldByStartUp")],
)  # fmt: skip
def test_it_does_not_grow_while_what_is_there_is_held(reason: str, word: str) -> None:
    current = {"desired": 3, "ready": 1, "pendingReasons": [{"reason": reason}]}
    progress = {"status": {"observedGeneration": 1, "current": current}}
    found = decide(autoscaler(), scene(3, 100, 100, 100, progress=progress), now=NOW)
    assert (found.replicas, said(found)["ScalingLimited"]) == (3, ("True", word))
    assert reason in found.why


def test_what_is_left_of_the_generation_before_counts_as_at_work() -> None:
    current = {"desired": 3, "ready": 1}
    progress = {"status": {"observedGeneration": 1, "current": current, "previous": {"ready": 2}}}
    assert decide(autoscaler(), scene(3, 100, 100, 100, progress=progress), now=NOW).replicas == 6


def test_a_rollout_is_held_by_what_its_pods_wait_for() -> None:
    reasons = [{"reason": "rollout"}, {"reason": "gateway"}, {"reason": "probe"}]
    current = {"desired": 6, "ready": 1, "pendingReasons": reasons}
    progress = {"status": {"observedGeneration": 1, "current": current}}
    found = decide(autoscaler(), scene(2, 100, 100, progress=progress), now=NOW)
    assert said(found)["ScalingLimited"] == ("True", "HeldByStartUp")
    current["pendingReasons"] = [{"reason": "rollout"}]
    found = decide(autoscaler(), scene(2, 100, 100, progress=progress), now=NOW)
    assert said(found)["ScalingLimited"] == ("True", "HeldByRollout")


def test_progress_of_an_older_generation_says_nothing() -> None:
    found = decide(autoscaler(), scene(2, 100, 100, workload=workload(2, generation=2)), now=NOW)
    assert (found.replicas, said(found)["ScalingLimited"]) == (2, ("True", "ProgressUnknown"))


def test_it_shrinks_whatever_holds_growth_back() -> None:
    assert decide(autoscaler(), scene(4, 10, 10, 10, 10, ready=2), now=NOW).replicas == 1


def test_a_paused_autoscaler_scales_in_neither_direction() -> None:
    for use, size in ((100, 2), (10, 4)):
        found = decide(autoscaler(), scene(size, *[use] * size, paused_by="calm"), now=NOW)
        assert (found.replicas, said(found)["ScalingLimited"]) == (size, ("True", "Paused"))
        assert "paused by the override calm" in found.why


def test_paused_growth_still_lets_it_shrink() -> None:
    found = decide(autoscaler(), scene(2, 100, 100, growth_paused_by="calm"), now=NOW)
    assert (found.replicas, said(found)["ScalingLimited"]) == (2, ("True", "Paused"))
    assert decide(autoscaler(), scene(4, 10, 10, 10, 10, growth_paused_by="calm"), now=NOW).replicas == 1


def test_a_pause_holds_also_outside_the_range_of_the_autoscaler() -> None:
    stopped = scene(20, *[100] * 20, paused_by="calm")
    assert decide(autoscaler(), stopped, now=NOW).replicas == 20
    growth_stopped = scene(20, *[100] * 20, growth_paused_by="calm")
    assert decide(autoscaler(), growth_stopped, now=NOW).replicas == 10


@pytest.mark.parametrize(("use", "decisive"), [(100, True), (50, False)])
def test_an_override_is_on_record_as_decisive_only_if_it_held_something_back(
    use: int, decisive: bool
) -> None:
    calm = Considered(
        "calm", 461, resource="scheduleroverrides.fathom.dev", namespace="default", uid="u-calm"
    )
    facts = scene(2, use, use, paused_by="calm", considered=(calm,))
    plan = plan_autoscaler(autoscaler(), facts, decide(autoscaler(), facts, now=NOW), now=NOW)
    assert plan.considered == (msgspec.structs.replace(calm, decisive=decisive),)


def test_shrinking_waits_for_its_window() -> None:
    busy = History((WantedReplicas(NOW_S - 100, 4),))
    found = decide(autoscaler(), scene(4, 10, 10, 10, 10, history=busy), now=NOW)
    assert (found.replicas, said(found)["AbleToScale"]) == (4, ("True", "ScaleDownStabilized"))
    calm = History((WantedReplicas(NOW_S - 301, 4),))
    assert decide(autoscaler(), scene(4, 10, 10, 10, 10, history=calm), now=NOW).replicas == 1


def test_a_step_of_somebody_before_us_is_waited_for() -> None:
    fresh = autoscaler(status={"lastScaleTime": at(-5)})
    found = decide(fresh, scene(2, 100, 100), now=NOW)
    assert (found.replicas, said(found)["ScalingLimited"]) == (2, ("True", "ScaleUpLimit"))
    ours = History(steps=(ScaleStep(NOW_S - 5, 1),), noted=(at(-5),))
    assert decide(fresh, scene(2, 100, 100, history=ours), now=NOW).replicas == 4


def test_a_step_of_somebody_before_us_may_have_been_made_a_minute_after_it_was_written_down() -> None:
    """Its request may have been that late. Shrinking waits as growing does."""
    for ago_s, grown, shrunk in ((74, 2, 4), (76, 4, 1)):
        fresh = autoscaler(status={"lastScaleTime": at(-ago_s)})
        assert decide(fresh, scene(2, 100, 100), now=NOW).replicas == grown
        assert decide(fresh, scene(4, 10, 10, 10, 10), now=NOW).replicas == shrunk


def test_our_own_step_is_known_though_our_clock_was_set_since() -> None:
    ours = History(steps=(ScaleStep(NOW_S - 16, 2),), noted=(at(-416),))
    set_forward = autoscaler(status={"lastScaleTime": at(-416)})
    assert decide(set_forward, scene(2, 100, 100, history=ours), now=NOW).replicas == 4


def test_a_step_of_unknown_outcome_counts_from_when_it_is_seen() -> None:
    unsure = History().unsure(2).unsure(2)
    assert unsure.seen(NOW_S, 2) == unsure
    assert unsure.seen(NOW_S, 6) == History(steps=(ScaleStep(NOW_S, 4),))
    assert unsure.stepped(NOW_S, 4).seen(NOW_S + 9, 10) == History(steps=(ScaleStep(NOW_S, 4),))


def test_only_the_last_times_that_were_written_are_kept() -> None:
    history = History()
    for second in range(9):
        history = history.with_note(at(second))
    assert history.noted == tuple(at(second) for second in (5, 6, 7, 8))


def test_a_step_of_somebody_whose_clock_was_ahead_is_waited_for_only_as_long_as_a_period() -> None:
    """It was taken before our term: how long that is ago needs no clock of theirs."""
    ahead = autoscaler(status={"lastScaleTime": at(3600)})
    young = msgspec.structs.replace(scene(2, 100, 100), term_s=10.0)
    assert decide(ahead, young, now=NOW).replicas == 2
    older = msgspec.structs.replace(scene(2, 100, 100), term_s=16.0)
    assert decide(ahead, older, now=NOW).replicas == 4


def test_without_metrics_nothing_happens_and_that_is_said() -> None:
    found = decide(autoscaler(), scene(2, trouble="unable to get resource metrics: down"), now=NOW)
    assert (found.replicas, said(found)["ScalingActive"]) == (2, ("False", "FailedGetResourceMetric"))
    assert found.why == "unable to get resource metrics: down"


def test_a_target_outside_its_range_is_brought_into_it() -> None:
    assert decide(autoscaler(low=3), scene(2), now=NOW).replicas == 3
    assert decide(autoscaler(high=3), scene(5), now=NOW).replicas == 3


def test_a_target_with_no_replicas_is_left_alone() -> None:
    found = decide(autoscaler(), scene(0), now=NOW)
    assert (found.replicas, said(found)["ScalingActive"]) == (0, ("False", "ScalingDisabled"))


def test_a_target_that_is_not_there_is_said() -> None:
    assert said(decide(autoscaler(), AutoscalerFacts(None), now=NOW)) == {
        "AbleToScale": ("False", "FailedGetScale")
    }


# Behaviour.


def test_policies_count_what_was_done_within_their_period() -> None:
    pods = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}
    one = autoscaler(behavior={"scaleUp": pods, "scaleDown": pods})
    history = History(steps=(ScaleStep(NOW_S - 30, 1), ScaleStep(NOW_S - 20, -1)))
    assert (most(one, history, 5, NOW_S), least(one, history, 5, NOW_S)) == (7, 3)
    assert (most(one, History(), 5, NOW_S), least(one, History(), 5, NOW_S)) == (7, 3)
    off = autoscaler(behavior={"scaleUp": {"selectPolicy": "Disabled"}})
    assert most(off, History(), 5, NOW_S) == 5


@pytest.mark.parametrize(("current", "left"), [(5, 4), (72, 64), (10, 9), (1, 0)])
def test_a_share_that_may_go_is_rounded_up(current: int, left: int) -> None:
    tenth = {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}
    assert least(autoscaler(behavior={"scaleDown": tenth}), History(), current, NOW_S) == left


def test_a_period_begins_with_what_was_there_before_steps_up_and_down() -> None:
    double = {"policies": [{"type": "Percent", "value": 100, "periodSeconds": 60}]}
    one = autoscaler(behavior={"scaleUp": double, "scaleDown": double})
    shrunk = History(steps=(ScaleStep(NOW_S - 30, -4),))
    assert (most(one, shrunk, 6, NOW_S), least(one, shrunk, 6, NOW_S)) == (20, 0)


def test_a_window_for_growth_takes_the_lowest_wish() -> None:
    one = autoscaler(behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    history = History((WantedReplicas(NOW_S - 30, 3), WantedReplicas(NOW_S - 100, 1)))
    assert stabilized(one, history, 9, 2, NOW_S) == 3


# The plan.


def test_a_step_is_written_down_before_it_is_made() -> None:
    one = autoscaler()
    seen = scene(2, 100, 100)
    plan = plan_autoscaler(one, seen, decide(one, seen, now=NOW), now=NOW)
    assert [patch.line for patch in plan.patches] == [
        "patch HorizontalPodAutoscaler default/web/status",
        "patch Deployment default/web",
    ]
    assert plan.patches[0].patch["status"]["lastScaleTime"] == NOW
    assert plan.patches[1].patch == {"spec": {"replicas": 4}}
    assert plan.needs == NEEDS
    assert plan.why == (
        "2 -> 4: cpu resource utilization (percentage of request) above target; "
        "cpu at 200% of its target over 2 pods: 4 replicas"
    )


def test_nothing_is_written_where_nothing_is_new() -> None:
    one, seen = autoscaler(), scene(2, 50, 50)
    (patch,) = plan_autoscaler(one, seen, decide(one, seen, now=NOW), now=NOW).patches
    written = {**one, "status": patch.patch["status"]}
    assert plan_autoscaler(written, seen, decide(written, seen, now=NOW), now=NOW).patches == ()


def test_two_autoscalers_of_one_target_leave_it_alone() -> None:
    mine, twin = autoscaler(), {**autoscaler(), "metadata": meta("twin")}
    other = autoscaler(scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "db"})
    assert rivals_of(mine, [mine, other]) == ()
    assert rivals_of(mine, [twin, other, mine]) == ("twin", "web")
    found = decide(mine, scene(20, *[900] * 20, rivals=("twin", "web")), now=NOW)
    assert (found.replicas, said(found)["ScalingActive"]) == (20, ("False", "AmbiguousSelector"))


# Other kinds.


def test_any_kind_is_scaled_by_its_scale_and_its_pods_are_those_that_it_selects() -> None:
    rings = Resource("example.com", "v1", "rings")
    status = {"replicas": 7, "selector": "ring=web,a!=b"}
    scale = {"metadata": meta("web"), "spec": {"replicas": 7}, "status": status}
    found = as_workload("Ring", scale, rings)
    assert found.workload == {"kind": "Ring", "metadata": meta("web"), "spec": {"replicas": 7}}
    assert [found.selector.matches(labels) for labels in ({"ring": "web"}, {"ring": "web", "a": "b"})] == [
        True,
        False,
    ]
    seen = AutoscalerFacts(found.workload, rings)
    plan = plan_autoscaler(autoscaler(), seen, ReplicaDecision(4, "so", ()), now=NOW)
    assert (plan.patches[1].line, plan.patches[1].target.resource) == ("patch Ring default/web/scale", rings)


def test_a_scale_without_selector_has_no_pods() -> None:
    for text in (None, "", "=="):
        scale = {"metadata": meta("web"), "spec": {}, "status": {"selector": text}}
        assert not as_workload("Ring", scale, Resource("e", "v1", "rings")).selector.matches({"a": "b"})
