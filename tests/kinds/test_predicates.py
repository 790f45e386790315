"""The predicates of our own kinds that everybody shares."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.kinds.capacity_class import CapacityClass
from fathom.kinds.policy_rollout import PolicyRollout, active_policies, policy_in
from fathom.kinds.reservation import Reservation, reservation_usable
from fathom.kinds.scheduler_override import (
    SchedulerOverride,
    override_active,
    scope_includes,
    targets_pod,
    workloads_of,
)
from fathom.kinds.scheduling_policy import Scope
from fathom.kinds.shape import read
from fathom.kinds.tenant_quota import Limit
from fathom.model.objects import Obj
from fathom.model.tenancy import tenant_of
from fathom.model.times import duration_ns, moment_ns

S = 1_000_000_000
START = "2026-01-01T00:00:00Z"
START_NS = 1_767_225_600 * S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45m", 2700), ("1h30m", 5400), ("0s", 0), ("1.5s", 1.5), ("2d", 172800), ("250ms", 0.25)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert duration_ns(text) == int(seconds * S)


@pytest.mark.parametrize(
    "text", ["", "45", "m", "-5m", "1h 30m", "for ever", "99999999999d", "1e3s", "5m" * 40]
)
def test_what_is_no_duration_is_none(text: str) -> None:
    assert duration_ns(text) is None


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-13-01T00:00:00Z"])
def test_what_is_no_moment_is_none(text: str | None) -> None:
    assert moment_ns(text) is None


def override(status: Any = None, *, spec: Any = None, **meta: Any) -> SchedulerOverride:
    wanted = {"target": "workload/risk-api", "expiresAfter": "10m", **(spec or {})}
    obj = {"metadata": {"namespace": "default", **meta}, "spec": wanted, "status": status or {}}
    return read(SchedulerOverride, obj)


@pytest.mark.parametrize(
    ("given", "after_s", "active"),
    [
        (override({"expiresAt": "2026-01-01T00:10:00Z"}), 599, True),
        (override({"expiresAt": "2026-01-01T00:10:00Z"}), 600, False),
        (override(creationTimestamp=START), 599, True),  # A server that stamps nothing.
        (override(creationTimestamp=START), 600, False),
        (override(), 0, False),  # Nobody can tell when it ends.
        (override({"expiresAt": "2026-01-01T00:10:00Z"}, deletionTimestamp=START), 0, False),
        (override({"expiresAt": "soon"}, creationTimestamp=START), 599, True),
    ],
)
def test_an_override_holds_until_its_end_and_not_without_one(
    given: SchedulerOverride, after_s: int, active: bool
) -> None:
    assert override_active(given, START_NS + after_s * S) is active


def pod(owner: str = "", kind: str = "ReplicaSet", **labels: str) -> Obj:
    owners = [{"kind": kind, "name": owner, "uid": "1", "controller": True}] if owner else []
    return {"metadata": {"namespace": "default", "name": "p", "labels": labels, "ownerReferences": owners}}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (pod(), ("p",)),
        (pod("risk-api"), ("risk-api",)),
        (pod("risk-api-7f2", **{"pod-template-hash": "7f2"}), ("risk-api-7f2", "risk-api")),
    ],
)
def test_a_pods_workload_is_found_by_name(given: Obj, names: tuple[str, ...]) -> None:
    assert workloads_of(given) == names
    assert targets_pod(override(), given) is ("risk-api" in names)
    assert not targets_pod(override(namespace="elsewhere"), given)
    assert not targets_pod(override(spec={"target": "node/risk-api"}), given)


def test_a_target_of_a_kind_is_a_workload_of_that_kind() -> None:
    def targeted(target: str, given: Obj) -> bool:
        return targets_pod(override(spec={"target": target}), given)

    hashed = pod("risk-api-7f2", **{"pod-template-hash": "7f2"})
    names = ("deployment/risk-api", "replicaset/risk-api-7f2", "job/risk-api", "deployment/risk-api-7f2")
    assert [targeted(name, hashed) for name in names] == [True, True, False, False]
    assert [targeted(name, pod("risk-api", "Job")) for name in names] == [False, False, True, False]
    assert targeted("deployment/p", pod()), "a pod without a controller has no other name"


def test_a_scope_is_a_place() -> None:
    labels = {"topology.kubernetes.io/region": "eu-west", "topology.kubernetes.io/zone": "a"}
    assert [scope_includes(scope, labels) for scope in ("", "region/eu-west", "zone/b", "moon/base")] == [
        True,
        True,
        False,
        False,
    ]


def rollout(spec: Any = None, **status: Any) -> PolicyRollout:
    return read(PolicyRollout, {"spec": {"from": "v4", "to": "v5", **(spec or {})}, "status": status})


def test_what_a_rollout_starts_from_holds_until_somebody_carries_it_out() -> None:
    assert active_policies(rollout()) == ("v4",)
    assert active_policies(rollout(phase="Canary", active="v4", canary="v5", percent=10)) == ("v4", "v5")
    assert active_policies(rollout(phase="Complete", active="v5")) == ("v5",)
    assert active_policies(rollout(phase="RolledBack", active="v4", canary="v5", percent=0)) == ("v4",)


def test_a_canary_is_a_fixed_share_of_identities() -> None:
    canary = rollout(phase="Canary", active="v4", canary="v5", percent=20)
    chosen = [policy_in(canary, f"uid-{number}") for number in range(2000)]
    assert 0.15 < chosen.count("v5") / len(chosen) < 0.25
    assert chosen.count("v4") + chosen.count("v5") == len(chosen)
    wider = rollout(phase="Canary", active="v4", canary="v5", percent=50)
    assert all(policy_in(wider, f"uid-{n}") == "v5" for n in range(2000) if chosen[n] == "v5")


def test_the_lists_of_a_scope_must_all_agree() -> None:
    scope = Scope(tenants=("risk",), workloads=("api",))
    assert scope.includes(tenant="risk", namespace="x", workloads=("api-1", "api"))
    assert not scope.includes(tenant="risk", namespace="x", workloads=("web",))
    assert not scope.includes(tenant="other", namespace="x", workloads=("api",))
    assert Scope().includes(tenant="any", namespace="x", workloads=())


def test_a_limit_without_a_place_is_for_all_places() -> None:
    assert Limit().covers(zone="a", capacity_class="recovery")
    assert not Limit(zone="b").covers(zone="a", capacity_class="")
    assert not Limit(capacity_class="").covers(zone="a", capacity_class="recovery")


def test_a_class_has_the_nodes_that_it_selects_and_no_others() -> None:
    pool = read(CapacityClass, {"spec": {"nodeSelector": {"pool": "r"}, "tenants": ["risk"]}})
    assert (pool.holds({"pool": "r", "x": "y"}), pool.holds({"pool": "s"})) == (True, False)
    assert not CapacityClass().holds({"pool": "r"})
    assert (pool.admits("risk"), pool.admits("web")) == (True, False)


@pytest.mark.parametrize(
    ("status", "expires", "usable"),
    [
        ("", None, True),
        ("Active", None, True),
        ("Bound", None, False),
        ("Expired", None, False),
        ("", START, False),
    ],
)
def test_a_reservation_is_of_use_while_it_holds(status: str, expires: str | None, usable: bool) -> None:
    given = read(Reservation, {"spec": {"expiresAt": expires}, "status": {"phase": status}})
    assert reservation_usable(given, START_NS) is usable


def test_a_tenant_is_named_by_the_pod_its_namespace_or_is_the_namespace() -> None:
    namespace = {"metadata": {"name": "default", "labels": {"fathom.dev/tenant": "risk"}}}
    named = {"metadata": {"namespace": "default", "labels": {"fathom.dev/tenant": "other"}}}
    assert (tenant_of(pod(), namespace), tenant_of(pod(), None)) == ("risk", "default")
    assert tenant_of(named, namespace) == "other"
