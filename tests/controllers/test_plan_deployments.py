"""What a Deployment does next, objects in and plan out; and whole rollouts, played through by hand."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.controllers.making import NOW, TEMPLATE, at, meta

from fathom.control.ownership import claims, controller_ref
from fathom.control.plan import Plan
from fathom.control.reconcile_result import Failure
from fathom.controllers.deployment.plan import (
    NEEDS,
    DeploymentFacts,
    plan_create_failure,
    plan_deployment,
)
from fathom.controllers.deployment.plan_rollback import difference
from fathom.controllers.deployment.plan_status import TIMED_OUT, plan_status, without_progress_s
from fathom.controllers.deployment.proportions import RolloutLimits, limits_of, most_of, resolved, shared_out
from fathom.controllers.deployment.revisions import (
    DESIRED,
    HISTORY,
    MOST,
    REVISION,
    new_notes,
    outdated,
    size_of,
    split,
    template_hash,
)
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.decision import Considered
from fathom.model.objects import Obj, uid_of


def template(tag: str = "1") -> Obj:
    return {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": f"web:{tag}"}]}}


def deployment(
    replicas: int = 4, *, tag: str = "1", notes: dict[str, str] | None = None, status: Obj | None = None,
    **spec: Any,
) -> Obj:  # fmt: skip
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta("web", annotations={} if notes is None else notes),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(tag),
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            **spec,
        },
        "status": status or {},
    }


def revision(owner: Obj, tag: str, size: int, *, available: int | None = None, number: int = 1) -> Obj:
    """The ReplicaSet of a template, as it is when it has seen its size."""
    shown = size if available is None else available
    labels = {"app": "web", "pod-template-hash": f"h{tag}"}
    most = {DESIRED: str(owner["spec"]["replicas"]), MOST: str(most_of(owner))}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": meta(
            f"web-h{tag}",
            age_s=1000 - number,
            labels=labels,
            annotations={REVISION: str(number), **most},
            ownerReferences=[controller_ref(owner)],
        ),
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": labels},
            "template": {**template(tag), "metadata": {"labels": labels}},
        },
        "status": {
            "replicas": size,
            "readyReplicas": shown,
            "availableReplicas": shown,
            "observedGeneration": 1,
        },
    }


def around(owner: Obj, *sets: Obj, running: dict[str, int] | None = None) -> DeploymentFacts:
    names = {one["metadata"]["name"] for one in sets}
    return DeploymentFacts(
        claims=claims(owner, sets, lambda one: one["metadata"]["labels"].get("app") == "web"),
        available={uid_of(one): one["status"]["availableReplicas"] for one in sets},
        running=running or {uid_of(one): one["status"]["replicas"] for one in sets},
        named=names.__contains__,
    )


def planned(owner: Obj, *sets: Obj, running: dict[str, int] | None = None) -> Plan:
    return plan_deployment(owner, around(owner, *sets, running=running), now=NOW)


def sizes(plan: Plan) -> dict[str, int]:
    return {
        patch.target.key.name: patch.patch["spec"]["replicas"]
        for patch in plan.patches
        if "replicas" in (patch.patch.get("spec") or {})
    }


# Revisions.


def test_the_first_revision_is_made_at_once_and_in_full() -> None:
    owner = deployment(4, notes={"team": "shop"}, minReadySeconds=5)
    (create,) = planned(owner).creates
    made = create.obj
    hash_ = template_hash(owner, 0)
    assert made["metadata"]["name"] == f"web-{hash_}"
    assert made["metadata"]["annotations"] == {"team": "shop", REVISION: "1", DESIRED: "4", MOST: "5"}
    labels = {"app": "web", "pod-template-hash": hash_}
    assert made["metadata"]["labels"] == labels
    assert made["spec"] == {
        "replicas": 4,
        "minReadySeconds": 5,
        "selector": {"matchLabels": labels},
        "template": {**template(), "metadata": {"labels": labels}},
    }


def test_the_same_template_has_the_same_hash_and_another_has_another() -> None:
    assert template_hash(deployment(3), 0) == template_hash(deployment(5), 0)
    assert template_hash(deployment(tag="2"), 0) != template_hash(deployment(tag="1"), 0)
    assert template_hash(deployment(), 1) != template_hash(deployment(), 0)


def test_a_name_that_is_taken_counts_as_a_collision() -> None:
    owner = deployment()
    plan = plan_deployment(
        owner, DeploymentFacts(claims(owner, [], bool), {}, {}, named=lambda _: True), now=NOW
    )
    assert [write.status for write in plan.statuses] == [{"collisionCount": 1}]
    assert plan.creates == ()


def test_going_back_to_an_old_template_takes_its_revision_up_and_remembers_the_number() -> None:
    owner = deployment(tag="1")
    old, other = revision(owner, "1", 0, number=1), revision(owner, "2", 4, number=2)
    sets = split(owner, [old, other])
    assert (sets.new, sets.old) == (old, (other,))
    assert new_notes(owner, sets) == {REVISION: "3", HISTORY: "1"}
    (patch,) = planned(owner, old, other).patches
    assert patch.patch == {"metadata": {"annotations": {REVISION: "3", HISTORY: "1"}}}


def test_the_deployment_carries_the_number_of_its_newest_revision() -> None:
    owner = deployment()
    (patch,) = planned(owner, revision(owner, "1", 4, number=7)).patches
    assert (patch.target.kind, patch.patch) == (
        "Deployment",
        {"metadata": {"annotations": {REVISION: "7"}}},
    )


def test_history_beyond_its_limit_goes_the_oldest_first_and_only_what_is_empty() -> None:
    owner = deployment(4, tag="9", revisionHistoryLimit=1, notes={REVISION: "5"})
    sets = [revision(owner, str(n), 0, number=n) for n in (1, 2, 3)]
    busy = revision(owner, "4", 1, number=4)
    new = revision(owner, "9", 4, number=5)
    assert [one["metadata"]["name"] for one in outdated(owner, split(owner, [*sets, busy, new]))] == [
        "web-h1",
        "web-h2",
    ]
    plan = planned(owner, *sets, new)
    assert [delete.line for delete in plan.deletes] == [
        "delete ReplicaSet default/web-h1",
        "delete ReplicaSet default/web-h2",
    ]
    assert plan.needs == NEEDS


# Rolling.


def test_the_new_revision_grows_by_the_surge_first() -> None:
    owner = deployment(4, tag="2", notes={REVISION: "2"})
    plan = planned(owner, revision(owner, "1", 4), revision(owner, "2", 0, number=2))
    assert sizes(plan) == {"web-h2": 1}
    assert plan.needs == NEEDS


def test_pods_that_are_not_taken_away_yet_count_towards_the_surge() -> None:
    owner = deployment(4, tag="2", notes={REVISION: "2"})
    old, new = revision(owner, "1", 3), revision(owner, "2", 1, number=2)
    assert sizes(planned(owner, old, new)) == {"web-h2": 2}
    seen = around(owner, old, new)
    slow = DeploymentFacts(seen.claims, seen.available, seen.running, live={uid_of(old): 4}, named=seen.named)
    assert "web-h2" not in sizes(plan_deployment(owner, slow, now=NOW))


def test_pods_that_only_a_status_counts_yet_count_towards_the_surge() -> None:
    """1. A revision of four is creating pods. 2. It is scaled to three, when all creates are sent. 3. Its
    status says so: three wanted, four there. 4. We have the status, but no event of the fourth pod yet."""
    owner = deployment(4, tag="2", notes={REVISION: "2"})
    old, new = revision(owner, "1", 3), revision(owner, "2", 1, number=2)
    old["status"]["replicas"] = 4
    facts = msgspec.structs.replace(around(owner, old, new), live={uid_of(old): 3, uid_of(new): 1})
    assert "web-h2" not in sizes(plan_deployment(owner, facts, now=NOW))


def test_a_new_revision_that_came_late_gives_back_what_it_has_not_created_beyond_the_surge() -> None:
    """Its create did not count the pods of another revision."""
    owner = deployment(4, tag="2", notes={REVISION: "2"})
    old, new = revision(owner, "1", 4), revision(owner, "2", 4, available=0, number=2)
    seen = around(owner, old, new)

    def planned_with(created: int) -> dict[str, int]:
        live = {uid_of(old): 4, uid_of(new): created}
        facts = DeploymentFacts(seen.claims, seen.available, seen.running, live=live, named=seen.named)
        return sizes(plan_deployment(owner, facts, now=NOW))

    assert planned_with(0) == {"web-h2": 1}
    assert planned_with(3) == {"web-h2": 3}
    assert planned_with(4) == {"web-h1": 3}


def test_nothing_grows_while_a_revision_has_not_seen_what_it_was_told() -> None:
    owner = deployment(4, tag="2", notes={REVISION: "2"})
    old, new = revision(owner, "1", 3), revision(owner, "2", 1, number=2)
    old["metadata"]["generation"] = 2
    assert sizes(planned(owner, old, new)) == {}
    (create,) = planned(deployment(4, tag="3"), old).creates
    assert create.obj["spec"]["replicas"] == 0


def test_old_revisions_shrink_as_far_as_enough_others_are_available() -> None:
    owner = deployment(4, tag="2", notes={REVISION: "2"})
    waiting = planned(owner, revision(owner, "1", 4), revision(owner, "2", 1, available=0, number=2))
    assert sizes(waiting) == {"web-h1": 3}
    further = planned(owner, revision(owner, "1", 3), revision(owner, "2", 2, available=1, number=2))
    assert sizes(further) == {"web-h1": 2}


def test_what_is_not_available_goes_before_what_is() -> None:
    owner = deployment(4, tag="3", notes={REVISION: "3"})
    broken = revision(owner, "2", 2, available=0, number=2)
    plan = planned(owner, revision(owner, "1", 3), broken, revision(owner, "3", 0, number=3))
    assert sizes(plan) == {"web-h2": 0}


def test_a_status_that_is_behind_the_pods_lets_nothing_go() -> None:
    owner = deployment(4, tag="2", notes={REVISION: "2"})
    old, new = revision(owner, "1", 3), revision(owner, "2", 2, number=2)
    seen = around(owner, old, new)
    lagging = DeploymentFacts(seen.claims, {uid_of(old): 3, uid_of(new): 0}, seen.running, named=seen.named)
    assert sizes(plan_deployment(owner, lagging, now=NOW)) == {}


def with_pods(owner: Obj, available: dict[str, int], *sets: Obj) -> DeploymentFacts:
    """As the ReplicaSets report, but their pods, which have all been created, say something else."""
    by_uid = {uid_of(one): available.get(one["metadata"]["name"], 0) for one in sets}
    live = {uid_of(one): size_of(one) for one in sets}
    return msgspec.structs.replace(around(owner, *sets), available=by_uid, live=live)


def test_pods_that_a_status_does_not_count_yet_are_not_taken_for_unavailable() -> None:
    """1. All pods of a revision become available; its status says so late. 2. Another one was never ready. 3.
    A third one comes: only pods of the second can be spared."""
    owner = deployment(4, tag="3", notes={REVISION: "3"})
    good, bad = revision(owner, "1", 3, available=0), revision(owner, "2", 2, available=0, number=2)
    sets = good, bad, revision(owner, "3", 0, number=3)
    facts = with_pods(owner, {"web-h1": 3}, *sets)
    assert sizes(plan_deployment(owner, facts, now=NOW)) == {"web-h2": 0}


@pytest.mark.parametrize("seed", range(40))
def test_whichever_of_status_and_pods_is_right_enough_available_pods_are_kept(seed: int) -> None:
    """A ReplicaSet deletes pods that are not available first."""
    rng = random.Random(seed)
    for _ in range(50):
        surge, missing = rng.choice(((1, 0), (0, 1), (1, 1), (2, 0)))
        wanted, before = rng.randrange(1, 6), rng.randrange(1, 6)
        strategy = _rolling(surge, missing)
        owner = deployment(wanted, tag="3", notes={REVISION: "3"}, strategy=strategy)
        earlier = deployment(rng.choice((wanted, before)), strategy=strategy)
        sets = [_reporting(earlier, tag, rng) for tag in "123"]
        pods = {one["metadata"]["name"]: rng.randrange(size_of(one) + 1) for one in sets}
        later = sizes(plan_deployment(owner, with_pods(owner, pods, *sets), now=NOW))
        right = {
            one["metadata"]["name"]: rng.choice(
                (pods[one["metadata"]["name"]], one["status"]["availableReplicas"])
            )
            for one in sets
        }
        kept = sum(min(available, later.get(name, available)) for name, available in right.items())
        assert kept >= min(wanted - limits_of(owner).unavailable, sum(right.values()))


def _reporting(owner: Obj, tag: str, rng: random.Random) -> Obj:
    size = rng.randrange(5)
    return revision(owner, tag, size, available=rng.randrange(size + 1), number=int(tag))


def test_a_rollback_keeps_the_only_healthy_capacity_until_there_is_other() -> None:
    """v2 was never ready; v1 has all that is."""
    owner = deployment(4, tag="1", notes={REVISION: "3"})
    good = revision(owner, "1", 3, number=3)
    bad = revision(owner, "2", 2, available=0, number=2)
    assert sizes(planned(owner, good, bad)) == {"web-h2": 0}
    # The other way round: what we go back to is not ready yet, so the healthy ones stay.
    back = revision(owner, "1", 1, available=0, number=3)
    well = revision(owner, "2", 3, number=2)
    assert sizes(planned(owner, back, well)) == {"web-h1": 2}
    assert sizes(planned(owner, {**back, "spec": {**back["spec"], "replicas": 2}}, well)) == {}


@pytest.mark.parametrize("seed", range(40))
def test_a_rollout_stays_within_its_bounds_and_ends(seed: int) -> None:
    """Whatever becomes ready in whichever order, or fails again."""
    rng = random.Random(seed)
    wanted, surge, missing = rng.randrange(1, 9), rng.randrange(3), rng.randrange(3)
    rolling = {"maxSurge": surge, "maxUnavailable": missing}
    owner = deployment(wanted, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    sets = {"web-h1": revision(owner, "1", wanted)}
    owner = {**owner, "spec": {**owner["spec"], "template": template("2")}}
    sets["web-h2"] = revision(owner, "2", 0, number=2)
    limits, lost = limits_of(owner), 0
    for _ in range(200):
        _carry_out(planned(owner, *sets.values()), owner, sets)
        assert sum(map(size_of, sets.values())) <= wanted + limits.surge
        for one in sets.values():
            _move(one, rng)
        if rng.random() < 0.1 and sets["web-h2"]["status"]["availableReplicas"]:
            sets["web-h2"]["status"]["availableReplicas"] -= 1
            lost += 1
        available = sum(one["status"]["availableReplicas"] for one in sets.values())
        assert available >= wanted - limits.unavailable - lost
        lost = max(0, lost - 1) if available >= wanted - limits.unavailable else lost
    for _ in range(60):
        _carry_out(planned(owner, *sets.values()), owner, sets)
        for one in sets.values():
            _move(one, rng, all_of_it=True)
    assert {name: size_of(one) for name, one in sets.items()} == {"web-h1": 0, "web-h2": wanted}


def _carry_out(plan: Plan, owner: Obj, sets: dict[str, Obj]) -> None:
    for patch in plan.patches:
        obj = owner if patch.target.kind == "Deployment" else sets[patch.target.key.name]
        notes = (patch.patch.get("metadata") or {}).get("annotations") or {}
        obj["metadata"] = {
            **obj["metadata"],
            "annotations": {**(obj["metadata"].get("annotations") or {}), **notes},
        }
        obj["spec"] = {**obj["spec"], **(patch.patch.get("spec") or {})}
    for write in plan.statuses:
        owner["status"] = {**owner["status"], **write.status}


def _move(one: Obj, rng: random.Random, *, all_of_it: bool = False) -> None:
    """A ReplicaSet makes its pods, or takes those away that do least; some get available."""
    size, status = size_of(one), one["status"]
    ready = min(status["availableReplicas"], size)
    more = size - ready
    ready += more if all_of_it else rng.randrange(more + 1)
    counts = {"replicas": size, "readyReplicas": ready, "availableReplicas": ready}
    one["status"] = {**counts, "observedGeneration": 1}


# Recreating, pausing, scaling.


def test_recreate_makes_nothing_new_before_the_last_old_pod_is_gone() -> None:
    owner = deployment(2, tag="2", strategy={"type": "Recreate"})
    old = revision(owner, "1", 2)
    assert sizes(planned(owner, old)) == {"web-h1": 0}
    empty = revision(owner, "1", 0)
    going = planned(owner, empty, running={uid_of(empty): 1})
    assert (going.creates, going.patches) == ((), ())
    gone = planned(owner, empty, running={uid_of(empty): 0})
    # Its pods come when it is known to be there, beside no pod of another.
    assert gone.creates[0].obj["spec"]["replicas"] == 0
    new, noted = (
        revision(owner, "2", 0, number=2),
        {**owner, "metadata": meta("web", annotations={REVISION: "2"})},
    )
    assert sizes(planned(noted, empty, new, running={uid_of(empty): 0})) == {"web-h2": 2}


@pytest.mark.parametrize("available", [4, 2, 0])
def test_a_status_that_was_written_is_not_written_again(available: int) -> None:
    owner = deployment(4)
    sets = split(owner, [revision(owner, "1", 4, available=available)])
    (write,) = plan_status(owner, sets, now=NOW)
    said = {name: value for name, value in write.status.items() if value not in (0, None)}
    assert plan_status({**owner, "status": said}, sets, now=at(60)) == ()


def test_a_paused_deployment_is_scaled_but_not_rolled() -> None:
    owner = deployment(6, tag="2", paused=True)
    four = revision(deployment(4), "1", 4)
    plan = planned(owner, four)
    assert (plan.creates, sizes(plan)) == ((), {"web-h1": 6})
    (write,) = plan.statuses
    progressing = find_condition(write.status["conditions"], "Progressing")
    assert progressing is not None
    assert (progressing["status"], progressing["reason"]) == ("Unknown", "DeploymentPaused")


def test_an_override_pauses_a_rollout_and_is_named() -> None:
    owner = deployment(4, tag="2")
    seen = around(owner, revision(owner, "1", 4))
    held = DeploymentFacts(seen.claims, seen.available, seen.running, named=seen.named, paused_by="calm")
    plan = plan_deployment(owner, held, now=NOW)
    assert (plan.creates, plan.patches) == ((), ())
    progressing = find_condition(plan.statuses[0].status["conditions"], "Progressing")
    assert progressing is not None
    assert (progressing["reason"], progressing["message"]) == (
        "DeploymentPaused",
        "Deployment is paused by the override calm",
    )


@pytest.mark.parametrize(("tag", "decisive"), [("2", True), ("1", False)])
def test_an_override_is_decisive_if_another_step_would_be_taken_without_it(tag: str, decisive: bool) -> None:
    calm = Considered(
        "calm", 461, resource="scheduleroverrides.fathom.dev", namespace="default", uid="u-calm"
    )
    owner = deployment(4, tag=tag)
    facts = around(owner, revision(deployment(4, tag="1"), "1", 4))
    held = msgspec.structs.replace(facts, paused_by="calm", considered=(calm,))
    plan = plan_deployment(owner, held, now=NOW)
    assert plan.considered == (msgspec.structs.replace(calm, decisive=decisive),)
    assert plan.why in {"the rollout is paused by the override calm", "update the revision annotation"}


def test_scaling_in_the_middle_of_a_rollout_is_shared_out_in_proportion() -> None:
    before = deployment(10, strategy=_rolling(3, 2))
    old, new = revision(before, "1", 8), revision(before, "2", 5, number=2)
    after = deployment(15, tag="2", strategy=_rolling(3, 2))
    assert shared_out(after, [old, new]) == {"web-h1": 11, "web-h2": 7}
    assert sizes(planned(after, old, new)) == {"web-h1": 11, "web-h2": 7}


def test_scaling_down_in_the_middle_of_a_rollout_leaves_those_that_must_be_available() -> None:
    before = deployment(5, strategy=_rolling(1, 0))
    old, new = revision(before, "1", 4, available=2), revision(before, "2", 2, available=0, number=2)
    after = deployment(2, tag="2", strategy=_rolling(1, 0))
    assert shared_out(after, [old, new]) == {"web-h1": 2, "web-h2": 1}
    assert sizes(planned(after, old, new)) == {"web-h1": 2, "web-h2": 1}
    older, newer = revision(before, "1", 2, available=2), revision(before, "2", 4, available=0, number=2)
    assert shared_out(after, [older, newer]) == {"web-h1": 1, "web-h2": 2}
    assert sizes(planned(after, older, newer)) == {"web-h2": 1}


def test_scaling_down_waits_until_a_status_counts_the_pods() -> None:
    """In proportion, one of each would stay, and only pods of the older revision are available."""
    before, after = deployment(5, strategy=_rolling(1, 0)), deployment(2, tag="2", strategy=_rolling(1, 0))
    older, newer = revision(before, "1", 2, available=0), revision(before, "2", 4, available=0, number=2)
    facts = with_pods(after, {"web-h1": 2}, older, newer)
    assert sizes(plan_deployment(after, facts, now=NOW)) == {"web-h2": 2}
    nothing = deployment(0, tag="2")  # Nothing must be kept, so nothing must be known.
    assert sizes(plan_deployment(nothing, facts, now=NOW)) == {"web-h1": 0, "web-h2": 0}


def test_a_scaled_revision_whose_pods_are_gone_replaces_no_other() -> None:
    """Its status says that all are available."""
    before, after = deployment(5), deployment(4, tag="2")
    older, newer = revision(before, "1", 1), revision(after, "2", 4, number=2)
    assert sizes(planned(after, older, newer)) == {"web-h1": 0}
    facts = with_pods(after, {"web-h1": 1}, older, newer)
    assert sizes(plan_deployment(after, facts, now=NOW)) == {}


def test_scaling_to_nothing_takes_every_revision() -> None:
    owner = deployment(0, tag="2")
    sets = [revision(deployment(4), "1", 3), revision(deployment(4), "2", 2, number=2)]
    assert sizes(planned(owner, *sets)) == {"web-h1": 0, "web-h2": 0}


@pytest.mark.parametrize(
    ("value", "whole", "up", "number"),
    [("25%", 10, True, 3), ("25%", 10, False, 2), (4, 10, True, 4), ("x", 10, True, 0), (None, 10, True, 0)],
)
def test_percentages_are_rounded_as_asked(value: object, whole: int, up: bool, number: int) -> None:
    assert resolved(value, whole, up=up) == number


def test_where_neither_surge_nor_absence_is_allowed_one_may_be_missing() -> None:
    assert limits_of(deployment(1, strategy=_rolling("0%", "25%"))) == RolloutLimits(0, 1)


def _rolling(surge: object, unavailable: object) -> Obj:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


# What it says.


def said(owner: Obj, *sets: Obj, now: str = NOW) -> dict[str, tuple[str, str]]:
    writes = plan_status(owner, split(owner, sets), now=now)
    conditions = writes[0].status["conditions"] if writes else conditions_of(owner)
    return {one["type"]: (one["status"], one["reason"]) for one in conditions}


def progressing(reason: str, message: str, *, since_s: float, status: str = "True") -> Obj:
    condition = {"type": "Progressing", "status": status, "reason": reason, "message": message}
    return {**condition, "lastUpdateTime": at(since_s), "lastTransitionTime": at(since_s)}


def test_a_finished_rollout_is_available_and_has_progressed() -> None:
    owner = deployment(4)
    (write,) = plan_status(owner, split(owner, [revision(owner, "1", 4)]), now=NOW)
    assert {name: value for name, value in write.status.items() if name != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 4,
        "updatedReplicas": 4,
        "readyReplicas": 4,
        "availableReplicas": 4,
        "unavailableReplicas": None,
        "terminatingReplicas": 0,
    }
    assert said(owner, revision(owner, "1", 4)) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


def test_too_few_available_is_said() -> None:
    owner = deployment(4)
    assert said(owner, revision(owner, "1", 4, available=2))["Available"] == (
        "False",
        "MinimumReplicasUnavailable",
    )


def test_no_progress_within_the_deadline_is_said_and_stops_the_rollout() -> None:
    about = 'ReplicaSet "web-h2" is progressing.'
    stuck = progressing("ReplicaSetUpdated", about, since_s=-601)
    status = {"replicas": 5, "updatedReplicas": 1, "readyReplicas": 4, "availableReplicas": 4}
    owner = deployment(4, tag="2", status={**status, "conditions": [stuck]}, notes={REVISION: "2"})
    sets = revision(owner, "1", 4), revision(owner, "2", 1, available=0, number=2)
    assert said(owner, *sets)["Progressing"] == ("False", TIMED_OUT)
    (write,) = plan_status(owner, split(owner, sets), now=NOW)
    over = {**owner, "status": {**status, **write.status}}
    assert sizes(planned(over, *sets)) == {}, "nothing healthy is taken, nothing more is made"
    assert sizes(planned(owner, *sets)) == {"web-h1": 3}
    # Something gets ready after all.
    better = revision(owner, "2", 1, number=2)
    assert said(over, sets[0], better)["Progressing"] == ("True", "ReplicaSetUpdated")


@pytest.mark.parametrize(
    ("age_s", "seen_s", "waited"),
    [
        (100.0, 100.0, 100.0),  # All of it was seen.
        (400.0, 150.0, 400.0),
        (500.0, 0.0, 300.0),  # So it has another 300 s.
        (10_000.0, 0.0, 300.0),
        (10_299.0, 299.0, 599.0),
        (10_300.0, 300.0, 600.0),
    ],
)
def test_who_gives_up_a_rollout_has_itself_seen_no_progress_for_half_of_its_time(
    age_s: float, seen_s: float, waited: float
) -> None:
    assert without_progress_s(deployment(4), age_s, seen_s) == waited


def test_a_rollout_without_a_time_or_a_deadline_waits_as_long_as_it_is_old() -> None:
    assert without_progress_s(deployment(4), None, 5.0) is None
    assert without_progress_s(deployment(4, progressDeadlineSeconds=None), 10_000.0, 5.0) == 10_000.0


def test_a_new_template_gets_its_own_time() -> None:
    late = progressing(TIMED_OUT, 'ReplicaSet "web-h1" has timed out.', since_s=-5, status="False")
    owner = deployment(4, tag="2", status={"conditions": [late]})
    found = said(owner, revision(owner, "1", 4), revision(owner, "2", 1, number=2))
    assert found["Progressing"] == ("True", "NewReplicaSetCreated")


def test_what_was_rolled_out_does_not_time_out_when_pods_fail_later() -> None:
    done = progressing("NewReplicaSetAvailable", 'ReplicaSet "web-h1" has …', since_s=-9999)
    status = {"replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4}
    owner = deployment(4, status={**status, "conditions": [done]})
    assert said(owner, revision(owner, "1", 4, available=1))["Progressing"][0] == "True"


def test_what_keeps_pods_from_being_made_is_passed_on() -> None:
    owner = deployment(4)
    one = revision(owner, "1", 4, available=0)
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    one["status"]["conditions"] = [failure]
    assert said(owner, one)["ReplicaFailure"] == ("True", "FailedCreate")
    (write,) = plan_create_failure(owner, Failure("Forbidden", "no"), name="web-h1", now=NOW).statuses
    assert write.status["conditions"][0]["reason"] == "ReplicaSetCreateError"


# Going back by itself.


def test_a_rollout_that_fails_goes_back_once_if_told_to() -> None:
    late = progressing(TIMED_OUT, 'ReplicaSet "web-h2" has timed out.', since_s=-5, status="False")
    owner = deployment(
        4, tag="2", status={"conditions": [late]}, notes={REVISION: "2", "fathom.dev/auto-revert": "true"}
    )
    sets = revision(owner, "1", 3), revision(owner, "2", 2, available=0, number=2)
    plan = planned(owner, *sets)
    (patch,) = plan.patches
    assert patch.patch["spec"] == {"template": {"spec": {"containers": template("1")["spec"]["containers"]}}}
    notes = patch.patch["metadata"]["annotations"]
    assert notes["fathom.dev/reverted-to"] == "web-h1"
    assert plan.needs == NEEDS
    # What it went back to fails too: it ends there.
    ours = {**late, "message": 'ReplicaSet "web-h1" has timed out.'}
    back = deployment(
        4,
        tag="1",
        status={"conditions": [ours]},
        notes={REVISION: "3", "fathom.dev/auto-revert": "true", **notes},
    )
    newest = revision(back, "1", 3, number=3)
    newest["metadata"]["annotations"][HISTORY] = "1"
    assert planned(back, newest, sets[1]).patches == ()


def test_a_difference_takes_away_what_is_no_longer_there() -> None:
    before = {"a": 1, "b": {"c": 1, "d": [1]}, "same": {"x": 1}}
    assert difference(before, {"b": {"d": [2]}, "same": {"x": 1}, "new": {}}) == {
        "a": None,
        "b": {"c": None, "d": [2]},
        "new": {},
    }
