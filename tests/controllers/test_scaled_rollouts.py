"""A Deployment that is scaled while it rolls, or is paused: cases as Kubernetes' own tests have them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.making import NOW
from tests.controllers.test_plan_deployments import deployment, planned, progressing, revision, said, sizes

from fathom.control.reconcile_result import Failure
from fathom.controllers.deployment.plan import plan_create_failure
from fathom.controllers.deployment.revisions import DESIRED, HISTORY, MOST, REVISION, new_notes, split
from fathom.model.objects import Obj


def paused(replicas: int, *, surge: int = 0, **options: Any) -> Obj:
    rolling = {"maxSurge": surge, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return deployment(replicas, tag="new", paused=True, strategy=strategy, **options)


def told(owner: Obj, tag: str, size: int, *, of: int, number: int, surge: int = 0) -> Obj:
    """A revision that was last told that so many are wanted; none of its pods is available."""
    made = revision(owner, tag, size, available=0, number=number)
    made["metadata"]["annotations"] |= {DESIRED: str(of), MOST: str(of + surge)}
    return made


@pytest.mark.parametrize(
    ("before", "after", "sets", "expected"),
    [
        (10, 12, {"new": 10}, {"new": 12}),
        (10, 5, {"new": 10}, {"new": 5}),
        (5, 10, {"v1": 3, "new": 2}, {"v1": 6, "new": 4}),
        (5, 3, {"v1": 3, "new": 2}, {"v1": 2, "new": 1}),
        (9, 4, {"v1": 1, "new": 8}, {"v1": 0, "new": 4}),
        (7, 10, {"v1": 2, "v2": 3, "new": 2}, {"v1": 3, "v2": 4, "new": 3}),
        (13, 8, {"v1": 3, "v2": 8, "new": 2}, {"v1": 2, "v2": 5, "new": 1}),
        (3, 4, {"v1": 1, "v2": 1, "new": 1}, {"new": 2}),  # The newest takes what is left over.
        (3, 2, {"v1": 1, "v2": 1, "new": 1}, {"v1": 0}),  # And the oldest gives it.
        (4, 5, {"v1": 2, "v2": 2}, {"v2": 3}),
        (6, 0, {"v1": 1, "v2": 2, "new": 3}, {"v1": 0, "v2": 0, "new": 0}),
        (6, 6, {"v1": 0, "v2": 0, "new": 0}, {"new": 6}),
        (10, 14, {"v1": 3, "v2": 7}, {"v1": 4, "v2": 10}),
    ],
)
def test_replicas_are_shared_out_as_kubernetes_does(
    before: int, after: int, sets: dict[str, int], expected: dict[str, int]
) -> None:
    owner = paused(after)
    made = [told(owner, tag, size, of=before, number=n) for n, (tag, size) in enumerate(sets.items())]
    assert sizes(planned(owner, *made)) == {f"web-h{tag}": size for tag, size in expected.items()}


def test_a_surge_is_shared_out_too() -> None:
    owner = paused(20, surge=2)
    made = [told(owner, tag, 6, of=10, number=n, surge=2) for n, tag in enumerate(("v1", "new"))]
    assert sizes(planned(owner, *made)) == {"web-hv1": 11, "web-hnew": 11}
    owner = paused(50, surge=6)
    made = [told(owner, "v1", 8, of=10, number=1, surge=3), told(owner, "new", 5, of=10, number=2, surge=3)]
    assert sizes(planned(owner, *made)) == {"web-hv1": 34, "web-hnew": 22}


def test_a_size_that_only_one_of_them_was_not_told_yet_is_shared_out_again() -> None:
    owner = paused(5)
    made = [
        told(owner, "v1", 1, of=5, number=1),
        told(owner, "v2", 1, of=3, number=2),
        told(owner, "new", 2, of=5, number=3),
    ]
    assert sizes(planned(owner, *made)) == {"web-hv2": 2}


def test_without_any_number_from_before_the_largest_takes_all() -> None:
    owner = paused(6)
    made = [told(owner, "v1", 1, of=2, number=1), told(owner, "new", 2, of=2, number=2)]
    for one in made:
        del one["metadata"]["annotations"][MOST]
    assert sizes(planned(owner, *made)) == {"web-hnew": 5}


# While it is paused.


def test_what_is_noted_on_a_paused_deployment_is_noted_on_its_newest_revision() -> None:
    owner = paused(2, notes={"kubernetes.io/change-cause": "calm", REVISION: "2"}, minReadySeconds=7)
    (patch,) = planned(owner, revision(owner, "v1", 0, number=1), revision(owner, "new", 2, number=2)).patches
    assert patch.target.key.name == "web-hnew"
    assert patch.patch["metadata"]["annotations"]["kubernetes.io/change-cause"] == "calm"
    assert patch.patch["spec"] == {"minReadySeconds": 7}


def test_history_beyond_its_limit_goes_while_it_is_paused() -> None:
    owner = paused(2, notes={REVISION: "3"}, revisionHistoryLimit=1)
    made = [revision(owner, f"v{n}", 0, number=n) for n in (1, 2)]
    plan = planned(owner, *made, revision(owner, "new", 2, number=3))
    assert [one.line for one in plan.deletes] == ["delete ReplicaSet default/web-hv1"]


def test_a_paused_deployment_makes_no_new_revision() -> None:
    owner = paused(2)
    assert planned(owner, revision(owner, "v1", 2)).actions == ()


# What is said.


def test_what_was_rolled_out_does_not_time_out_when_an_old_revision_grows() -> None:
    """Somebody scaled it by hand, or it was adopted: that is no lack of progress of the newest."""
    message = 'ReplicaSet "web-h2" has successfully progressed.'
    long_ago = progressing("NewReplicaSetAvailable", message, since_s=9999)
    counted = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    owner = deployment(4, tag="2", status={**dict.fromkeys(counted, 4), "conditions": [long_ago]})
    found = said(owner, revision(owner, "1", 1, available=0, number=1), revision(owner, "2", 4, number=2))
    assert found["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_a_revision_that_cannot_be_made_is_named() -> None:
    failure = Failure("Forbidden", "create ReplicaSet default/web-h1: no room", answer="no room")
    plan = plan_create_failure(deployment(), failure, name="web-h1", now=NOW)
    (condition,) = plan.statuses[0].status["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "ReplicaSetCreateError",
        'Failed to create new replica set "web-h1": no room',
    )
    without = deployment(progressDeadlineSeconds=None)
    assert plan_create_failure(without, failure, name="web-h1", now=NOW).statuses == ()


def test_a_long_history_loses_its_oldest_numbers_whole() -> None:
    owner = deployment(tag="1")
    newest = revision(owner, "1", 4, number=7000)
    newest["metadata"]["annotations"][HISTORY] = ",".join(str(n) for n in range(6000, 6400))
    later = revision(owner, "2", 0, number=7001)
    kept = new_notes(owner, split(owner, [newest, later]))[HISTORY].split(",")
    assert (kept[0], kept[-1], {len(one) for one in kept}) == ("6001", "7000", {4})
