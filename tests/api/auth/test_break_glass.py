"""What the authorizer allows by an override with breakGlassRole, and what that costs."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.api.auth.cluster import Cluster, StoppedClock, cluster_role, rule, target, user

from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.rbac import RbacDecision
from fathom.model.objects import Obj
from fathom.model.times import timestamp

CLOCK = StoppedClock()
EVE = user("eve")


def fixer(mark: str = "true") -> Obj:
    role = cluster_role("fixer", rule("*", "*", groups=("*",)))
    role["metadata"]["annotations"] = {"fathom.dev/break-glass": mark}
    return role


def override(name: str = "o", *, lasts_s: int = 600, age_s: int = 0, **status: Any) -> Obj:
    created_ns = CLOCK.now_ns() - age_s * 1_000_000_000
    stamped = {"author": "eve", "expiresAt": timestamp(created_ns + lasts_s * 1_000_000_000)}
    return {
        "kind": "SchedulerOverride",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": timestamp(created_ns)},
        "spec": {"target": "workload/x", "changes": {"breakGlassRole": "fixer"}},
        "status": {**stamped, **status},
    }


def allowed(*objects: Obj, verb: str = "delete", plural: str = "pods") -> bool:
    return Authorizer(Cluster(*objects), CLOCK).authorize(EVE, target(verb, plural)).allowed


def test_an_active_override_of_a_marked_role_allows_and_names_itself() -> None:
    decision = Authorizer(Cluster(fixer(), override()), CLOCK).authorize(EVE, target("delete", "pods"))
    reason = 'break-glass: allowed by SchedulerOverride "default/o" of ClusterRole "fixer"'
    assert decision == RbacDecision(True, reason, override="default/o")


def test_what_does_not_allow() -> None:
    assert not allowed(fixer())
    assert not allowed(override())
    assert not allowed(fixer(mark="yes"), override())
    assert not allowed(fixer(), override(age_s=601))
    assert not allowed(fixer(), override(author="tom"))
    assert not allowed(fixer(), override(authorImpersonatedBy="tom"))
    # Whatever its status says, an hour is the end.
    assert not allowed(fixer(), override(lasts_s=9000, age_s=3600))
    assert allowed(fixer(), override(lasts_s=9000, age_s=3599))


def test_who_acts_as_the_author_and_who_has_no_clock_get_nothing() -> None:
    cluster = Cluster(fixer(), override())
    acting = msgspec.structs.replace(EVE, impersonator="tom")
    assert not Authorizer(cluster, CLOCK).authorize(acting, target("delete", "pods")).allowed
    assert not Authorizer(cluster).authorize(EVE, target("delete", "pods")).allowed
    assert not Authorizer(cluster, CLOCK).by_roles(EVE, target("delete", "pods")).allowed


def test_acting_as_others_and_granting_more_than_one_holds_are_out_of_reach() -> None:
    objects = (fixer(), override())
    assert [allowed(*objects, verb=verb) for verb in ("get", "impersonate", "escalate", "bind")] == [
        True,
        False,
        False,
        False,
    ]


def test_overrides_are_read_once_for_each_revision_and_only_when_roles_do_not_allow() -> None:
    cluster = Cluster(fixer(), override())
    judge = Authorizer(cluster, CLOCK)
    assert judge.authorize(EVE, target("delete", "pods")).allowed
    before = cluster.lists
    for verb in ("delete", "patch", "update"):
        assert judge.authorize(EVE, target(verb, "pods")).allowed
        assert not judge.authorize(user("tom"), target(verb, "pods")).allowed
    assert cluster.lists == before
    cluster.add(override("another"))
    assert judge.authorize(EVE, target("delete", "pods")).allowed
    assert cluster.lists == before + 1
