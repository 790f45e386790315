"""Each condition of a WorkloadProgress that is True, and each reason that claims something, is so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.making import NOW, NOW_S
from tests.controllers.test_plan_progress import planned, stand, there

from fathom.controllers.progress.missing_pods import MissingPods
from fathom.controllers.progress.plan import PodCounts
from fathom.controllers.progress.pod_stages import ADMITTED, BOUND, QUEUED, READY, SERVING, STARTING, PodStage
from fathom.model.objects import Obj


def conditions(counted: PodCounts) -> dict[str, Obj]:
    (write,) = planned(there(), counted).statuses
    return {str(one["type"]): one for one in write.status["conditions"]}


def test_pods_that_could_not_be_created_are_not_all_placed() -> None:
    refused = MissingPods("quota", "exceeded quota: few", NOW_S + 30.0)
    said = conditions(PodCounts(3, [stand(SERVING)], missing=refused))["SchedulingRetrying"]
    assert (said["status"], said["reason"]) == ("False", "NotCreated")
    assert "quota" in said["message"]
    none = conditions(PodCounts(3, [], missing=refused))["SchedulingRetrying"]
    assert (none["status"], none["reason"]) == ("False", "NotCreated")


def test_messages_of_conditions_are_sentences_about_pods() -> None:
    refused = MissingPods("quota", "exceeded quota: few", NOW_S + 30.0)
    shown = conditions(PodCounts(3, [stand(SERVING)], missing=refused))
    assert {type_: condition["message"] for type_, condition in shown.items()} == {
        "Bound": "1 of 3 pods are bound",
        "Ready": "1 of 3 pods are ready",
        "SchedulingRetrying": "pending reasons: quota",
        "Stuck": "",
    }


def test_pods_that_are_gated_are_not_all_placed() -> None:
    said = conditions(PodCounts(2, [stand(SERVING), stand(ADMITTED, reason="gate/budget")]))
    assert (said["SchedulingRetrying"]["status"], said["SchedulingRetrying"]["reason"]) == (
        "False",
        "NotQueued",
    )


def test_a_workload_that_is_being_deleted_is_not_ready() -> None:
    going = MissingPods("deletion", "it is being deleted", NOW_S + 60.0)
    said = conditions(PodCounts(0, [], going=going))
    assert {type_: (said[type_]["status"], said[type_]["reason"]) for type_ in ("Bound", "Ready")} == {
        "Bound": ("False", "Deleting"),
        "Ready": ("False", "Deleting"),
    }


stands = st.builds(
    stand,
    st.sampled_from([ADMITTED, QUEUED, BOUND, STARTING, READY, SERVING]),
    age_s=st.integers(0, 1000),
    reason=st.sampled_from(["quota/eu", "crash", "image", "node/n1"]),
)


@given(
    desired=st.integers(0, 5),
    some=st.lists(stands, max_size=6),
    boundary=st.sampled_from(["admission", "quota", "rollout", "paused"]),
    late=st.booleans(),
)
def test_what_a_condition_claims_is_so(desired: int, some: list[PodStage], boundary: str, late: bool) -> None:
    missing = MissingPods(boundary, "why", NOW_S - 1.0 if late else NOW_S + 30.0)
    said = conditions(PodCounts(desired, some, missing=missing))

    def reached(stage: int) -> int:
        return sum(one.stage >= stage for one in some)

    if said["Bound"]["status"] == "True":
        assert reached(BOUND) >= desired
    if said["Ready"]["status"] == "True":
        assert reached(READY) >= desired
    retrying = said["SchedulingRetrying"]
    if retrying["reason"] == "AllPlaced":
        assert reached(BOUND) == len(some) >= desired
    if retrying["status"] == "True":
        assert any(one.stage == QUEUED for one in some)
    overdue = [one for one in some if one.deadline_s is not None and one.deadline_s <= NOW_S]
    assert (said["Stuck"]["status"] == "True") == bool(overdue or (late and len(some) < desired))
    assert all(one["lastTransitionTime"] == NOW for one in said.values())
