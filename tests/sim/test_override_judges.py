"""Judges of overrides are not silent, and not too strict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fathom.kinds.override_stamps import hash_of
from fathom.model.audit import AuditEntry, Verdict
from fathom.model.decision import Considered, Decision, Subject
from fathom.model.objects import Key, Obj
from fathom.model.times import SECOND_NS, timestamp
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.checkers.approvals import ApprovalsAreInTheAuditLog, OnlyTheApprovedActs
from fathom.sim.checkers.break_glass import BreakGlassEnds
from fathom.sim.checkers.contradictions import NoContradictionInForce
from fathom.sim.checkers.override_floor import (
    BlastRadiusWithinLimits,
    EffectsCarryTheUid,
    HonouredOnceAcknowledged,
    LastHealthyReplicaStays,
)
from fathom.sim.checkers.override_rates import UndoneAFewAtATime
from fathom.sim.checkers.overrides import DecidedWithoutTheEnded, NothingActsAfterTheEnd
from fathom.sim.checkers.route_weights import PeoplesWeightsStay
from fathom.sim.report.chronicle import Audited
from fathom.sim.world.invariants import Checker, Finding, Seen
from fathom.sim.world.world import World

OVERRIDES = "scheduleroverrides.fathom.dev"
ENDS_S = 60


class Engine(SimpleNamespace):
    """As much of an engine as is read: the scenario began at 0, and the clock is right."""

    def __init__(self) -> None:
        users = {name: SimpleNamespace(user=SimpleNamespace(name=name)) for name in ("alice", "bob", "api-1")}
        super().__init__(
            epoch_ns=0, began_ns=0, now_ns=0, since_s=0.0, processes=users, record_readers=[], found=[]
        )

    def broken(self, violation: Any) -> None:
        self.found.append(violation.message)


def began(checker: Any) -> Any:
    checker.begin(cast(World, SimpleNamespace(engine=Engine())))
    return checker


def seen(
    resource: str,
    name: str,
    old: Obj | None,
    new: Obj | None,
    *,
    at_s: float = 0.0,
    by: str = "alice",
    **how: Any,
) -> Seen:
    key = Key("" if resource == "nodes" else "default", name)
    return Seen(
        resource=resource, key=key, revision=1, old=old, new=new, at_s=at_s, by=by, incarnation=1, **how
    )


def override(name: str, changes: Obj, *, target: str = "workload/web", **status: Any) -> Obj:
    spec = {"target": target, "scope": "cluster", "expiresAfter": f"{ENDS_S}s", "changes": changes}
    ends = {"expiresAt": timestamp(ENDS_S * SECOND_NS)}
    meta = {"namespace": "default", "name": name, "uid": f"uid-{name}", "generation": 1}
    return {"metadata": meta, "spec": spec, "status": {**ends, **status}}


def made(obj: Obj, **how: Any) -> Seen:
    return seen(OVERRIDES, obj["metadata"]["name"], None, obj, **how)


def said(found: object) -> object:
    return found.message if isinstance(found, Finding) else found


def pod(name: str, *, account: str = "", evicted: str = "", node: str = "", ready: bool = True) -> Obj:
    owner = {"kind": "ReplicaSet", "name": "web-abc", "uid": "set", "controller": True}
    conditions = [{"type": "Ready", "status": "True"}] if ready else []
    if evicted:
        reason = f"default/o@{evicted}"
        conditions.append({"type": "fathom.dev/EvictedFor", "status": "True", "reason": reason})
    notes = {"fathom.dev/account": account} if account else {}
    meta = {"name": name, "uid": name, "ownerReferences": [owner], "annotations": notes}
    meta["labels"] = {"pod-template-hash": "abc"}
    return {
        "metadata": meta,
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": conditions},
    }


# The end.


@pytest.mark.parametrize(("at_s", "late"), [(ENDS_S + 1, False), (ENDS_S + 5, True)])
def test_an_effect_that_begins_after_the_end_is_found(at_s: float, late: bool) -> None:
    checker = began(NothingActsAfterTheEnd())
    assert checker.commit(made(override("o", {"drain": True}))) is None
    for old, new in (
        (pod("p"), pod("p", account="default///uid-o")),
        (pod("p"), pod("p", evicted="uid-o")),
    ):
        assert (checker.commit(seen("pods", "p", old, new, at_s=at_s)) is not None) == late


def test_a_deleted_override_has_ended_and_one_that_moves_its_pods_may_evict_them() -> None:
    checker = began(NothingActsAfterTheEnd())
    checker.commit(made(override("o", {"drain": True})))
    gone = override("o", {"drain": True})
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    checker.commit(seen(OVERRIDES, "o", override("o", {"drain": True}), gone, at_s=10))
    evicted = seen("pods", "p", pod("p"), pod("p", evicted="uid-o"), at_s=20)
    assert "10.0 s after its end" in checker.commit(evicted)
    gone["spec"]["onEnd"] = "move"
    checker.commit(seen(OVERRIDES, "o", gone, gone, at_s=10))
    assert checker.commit(evicted) is None


@pytest.mark.parametrize(
    ("after_s", "decisive", "subject", "found"),
    [(10, True, "p", 1), (1, True, "p", 0), (10, False, "p", 0), (10, True, "uid-o", 0)],
    ids=["late", "in time", "not decisive", "about itself"],
)
def test_a_decision_that_rests_on_an_ended_override_is_found(
    after_s: int, decisive: bool, subject: str, found: int
) -> None:
    checker = began(DecidedWithoutTheEnded())
    checker.commit(made(override("o", {"avoidZones": ["a"]})))
    checker._engine.now_ns = (ENDS_S + after_s) * SECOND_NS
    used = Considered(name="o", uid="uid-o", decisive=decisive)
    about = Subject("pods", "default", "p", uid=subject)
    decision = Decision(
        id="1", time_ns=0, controller="scheduler", subject=about, verdict="bind", overrides=(used,)
    )
    checker.decided(SimpleNamespace(skew_ns=0), decision)
    assert len(checker._engine.found) == found


# Two people.


def test_two_that_contradict_each_other_are_found_while_both_are_in_force() -> None:
    checker = began(NoContradictionInForce())
    weights = ({"trafficWeights": {"a": 1}}, {"trafficWeights": {"b": 1}})
    assert checker.commit(made(override("one", weights[0]))) is None
    assert checker.commit(made(override("other", weights[1], target="workload/api"))) is None
    waiting = override("waiting", weights[1], approval={"required": True})
    assert checker.commit(made(waiting)) is None
    assert "contradict each other" in str(said(checker.commit(made(override("two", weights[1])))))


APPROVED = {"required": True, "approved": True, "approver": "bob"}


def approvals(*changes: Seen) -> list[object]:
    checker = began(OnlyTheApprovedActs())
    limits = {"spec": {"approvals": "on"}}
    checker.commit(seen("steeringlimits.fathom.dev", "default", None, limits))
    return [said(checker.commit(change)) for change in changes]


def test_an_approval_by_somebody_else_puts_it_in_force() -> None:
    waits = override("o", {"drain": True}, approval={"required": True})
    good = override("o", {"drain": True}, approval=APPROVED)
    evicted = seen("pods", "p", pod("p"), pod("p", evicted="uid-o"))
    early, created, approved, late = approvals(
        made(waits), evicted, seen(OVERRIDES, "o", waits, good, by="bob"), evicted
    )
    assert (early, approved, late) == (None, None, None)
    assert "which waits for approval" in str(created)


def test_an_approval_by_its_author_or_of_another_spec_or_none_at_all_is_found() -> None:
    waits = override("o", {"drain": True}, approval={"required": True})
    own = override("o", {"drain": True}, approval={**APPROVED, "approver": "alice"})
    assert "alice approved" in str(approvals(made(waits), seen(OVERRIDES, "o", waits, own))[1])
    good = override("o", {"drain": True}, approval=APPROVED)
    edited = override("o", {"drain": True}, target="zone/b", approval=APPROVED)
    told = approvals(
        made(waits), seen(OVERRIDES, "o", waits, good, by="bob"), seen(OVERRIDES, "o", good, edited)
    )
    assert "a spec that nobody approved" in str(told[2])
    assert "needs no approval" in str(approvals(made(override("o", {"drain": True})))[0])


# The audit log of approvals: alice creates the override at revision 1 and edits it at 2, bob approves at 3.

CREATED, EDITED = (override("o", {"drain": True}, target=f"zone/{zone}") for zone in "ab")


def entry(user: str, obj: Obj, revision: int, **how: Any) -> AuditEntry:
    notes = Verdict("SchedulerOverrides", notes=(("spec-hash", hash_of(obj)),))
    fields = {"id": str(revision), "time": "", "verb": "patch", "code": 200, "uid": "uid-o", **how}
    return AuditEntry(
        user=user, resource=OVERRIDES, name="o", revision=revision, admission=(notes,), **fields
    )


CREATE = entry("alice", CREATED, 1, verb="create")
EDIT = entry("alice", EDITED, 2)
UNKNOWN = entry("alice", EDITED, 0, code=504)  # The server does not know whether it was committed.
OF_BOB = entry("bob", EDITED, 3, subresource="approval")


def audited(*entries: AuditEntry, edited: bool = True, restarted: bool = False) -> list[object]:
    server = SimpleNamespace(alive=True, incarnation=1)
    checker, engine = ApprovalsAreInTheAuditLog(), Engine()
    engine.committer = SimpleNamespace(server=server)
    world = cast(World, SimpleNamespace(engine=engine))
    checker.begin(world)
    checker.commit(made(CREATED))
    if edited:
        checker.commit(msgspec.structs.replace(seen(OVERRIDES, "o", CREATED, EDITED), revision=2))
    server.incarnation += restarted
    events = [
        Audited(id=number, at_ns=0, process="api-1", incarnation=1, entry=each)
        for number, each in enumerate(entries)
    ]
    engine.chronicle = SimpleNamespace(events=events)
    return list(checker.settled(world))


def test_an_approval_is_of_the_spec_that_the_log_has_last_whatever_the_order_of_its_entries() -> None:
    assert audited(OF_BOB, EDIT, CREATE) == []
    assert audited(OF_BOB, CREATE, edited=False) == [
        f"bob approved {hash_of(EDITED)[:8]} of o: it was {hash_of(CREATED)[:8]} by {{'alice'}}"
    ]
    own = entry("alice", EDITED, 3, subresource="approval")
    assert "alice approved" in str(audited(CREATE, EDIT, own))


def test_a_write_whose_outcome_the_server_did_not_know_counts_only_if_it_was_committed() -> None:
    of_the_first = entry("bob", CREATED, 3, subresource="approval")
    assert audited(CREATE, UNKNOWN, OF_BOB) == []
    assert audited(CREATE, UNKNOWN, of_the_first, edited=False) == []
    assert "bob approved" in str(audited(CREATE, UNKNOWN, of_the_first))
    assert "bob approved" in str(audited(CREATE, UNKNOWN, OF_BOB, edited=False))
    created = entry("alice", CREATED, 0, verb="create", code=504, uid="")
    assert audited(created, EDIT, OF_BOB) == []


@pytest.mark.parametrize(
    "other",
    [
        (),
        (entry("bob", EDITED, 0, code=504),),
        (entry("alice", CREATED, 0, code=504),),
        (entry("alice", EDITED, 0, code=409),),
        (entry("alice", EDITED, 0, code=504, uid="another"),),
    ],
    ids=["none", "of another user", "of another spec", "refused", "of another object"],
)
def test_a_spec_that_was_written_without_an_entry_is_found_unless_its_server_died(
    other: tuple[AuditEntry, ...],
) -> None:
    assert audited(CREATE, *other, OF_BOB) == [
        f"no entry has the spec {hash_of(EDITED)[:8]} that alice wrote to o"
    ]
    assert audited(CREATE, *other, OF_BOB, restarted=True) == []
    of_the_first = entry("bob", CREATED, 3, subresource="approval")
    assert "bob approved" in str(audited(CREATE, *other, of_the_first, restarted=True))


# Break-glass.


def test_what_is_written_by_break_glass_after_its_end_or_without_its_mark_is_found() -> None:
    checker = began(BreakGlassEnds())
    ask = cast(Any, SimpleNamespace(target="/x"))
    checker.commit(made(override("o", {"breakGlassRole": "r"})))
    role = {"metadata": {"name": "r", "annotations": {"fathom.dev/break-glass": "uid-o"}}}
    roles = "roles.rbac.authorization.k8s.io"
    assert checker.commit(seen(roles, "r", None, role, ask=ask)) is None
    assert "does not carry its UID" in checker.commit(
        seen(roles, "r", None, {"metadata": {"name": "r"}}, ask=ask)
    )
    assert checker.commit(seen(roles, "r", None, role, at_s=ENDS_S + 10, by="bob", ask=ask)) is None
    assert "after break-glass ended" in checker.commit(
        seen(roles, "r", None, role, at_s=ENDS_S + 10, ask=ask)
    )


# The floor.


def acknowledged(changes: Obj, *controllers: str, target: str = "workload/web") -> Obj:
    entries = [{"controller": each, "state": "Honoring", "observedGeneration": 1} for each in controllers]
    return override("o", changes, target=target, acknowledgements=entries)


@pytest.mark.parametrize(("who", "at_s", "wrong"), [("autoscaler", 5, 1), ("", 5, 0), ("autoscaler", 59, 0)])
def test_an_autoscaler_that_scales_what_it_honours_as_paused_is_found(
    who: str, at_s: float, wrong: int
) -> None:
    checker = began(HonouredOnceAcknowledged())
    checker.commit(made(acknowledged({"pauseAutoscaler": True}, who)))
    old, new = ({"metadata": {"name": "web"}, "spec": {"replicas": count}} for count in (2, 3))
    actor = (("fathom-actor", "controllers/autoscaling"),)
    scaled = seen("deployments.apps", "web", old, new, at_s=at_s, headers=actor)
    assert (checker.commit(scaled) is not None) == bool(wrong)


@pytest.mark.parametrize(
    ("change", "replicas", "wrong"),
    [("pauseExpansion", 3, 1), ("pauseExpansion", 1, 0), ("pauseAutoscaler", 1, 1)],
)
def test_growth_is_paused_in_one_direction_and_the_autoscaler_in_both(
    change: str, replicas: int, wrong: int
) -> None:
    checker = began(HonouredOnceAcknowledged())
    checker.commit(made(acknowledged({change: True}, "autoscaler")))
    old, new = ({"metadata": {"name": "web"}, "spec": {"replicas": count}} for count in (2, replicas))
    actor = (("fathom-actor", "controllers/autoscaling"),)
    scaled = seen("deployments.apps", "web", old, new, at_s=5, headers=actor)
    assert (checker.commit(scaled) is not None) == bool(wrong)


@pytest.mark.parametrize(
    ("zones", "at_s", "wrong"), [("aa", 30, 1), ("ab", 30, 0), ("aa", 5, 0), ("", 30, 0)]
)
def test_a_place_that_all_nodes_are_in_for_a_while_is_everywhere(zones: str, at_s: float, wrong: int) -> None:
    checker = began(HonouredOnceAcknowledged())
    for number, zone in enumerate(zones):
        node = {"metadata": {"name": f"n{number}", "labels": {"topology.kubernetes.io/zone": zone}}}
        checker.commit(seen("nodes", f"n{number}", None, node))
    paused = acknowledged({"pauseAutoscaler": True}, "autoscaler")
    paused["spec"]["scope"] = "zone/a"
    checker.commit(made(paused))
    old, new = ({"metadata": {"name": "web"}, "spec": {"replicas": count}} for count in (2, 3))
    actor = (("fathom-actor", "controllers/autoscaling"),)
    scaled = seen("deployments.apps", "web", old, new, at_s=at_s, headers=actor)
    assert (checker.commit(scaled) is not None) == bool(wrong)


@pytest.mark.parametrize(("scope", "wrong"), [("zone/a", 1), ("zone/b", 0), ("cluster", 1)])
def test_a_placement_on_a_node_in_the_scope_is_found_and_on_others_is_none(scope: str, wrong: int) -> None:
    checker = began(HonouredOnceAcknowledged())
    for name, zone in (("n", "a"), ("other", "b")):
        node = {"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}}
        checker.commit(seen("nodes", name, None, node))
    avoids = acknowledged({"avoidZones": ["a"]}, "scheduler")
    avoids["spec"]["scope"] = scope
    checker.commit(made(avoids))
    assert (checker.commit(seen("pods", "p", pod("p"), pod("p", node="n"))) is not None) == bool(wrong)


@pytest.mark.parametrize(
    ("changes", "target"), [({"avoidZones": ["a"]}, "workload/web"), ({"cordon": True}, "zone/a")]
)
def test_a_placement_against_an_override_that_the_scheduler_honours_is_found(
    changes: Obj, target: str
) -> None:
    checker = began(HonouredOnceAcknowledged())
    node = {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "a"}}}
    checker.commit(seen("nodes", "n", None, node))
    bound = seen("pods", "p", pod("p"), pod("p", node="n"))
    checker.commit(made(acknowledged(changes, target=target)))
    assert checker.commit(bound) is None
    checker.commit(made(acknowledged(changes, "scheduler", target=target)))
    assert "was put on n" in checker.commit(bound)


def test_an_eviction_or_a_route_without_the_uid_of_an_override_is_found() -> None:
    checker = EffectsCarryTheUid()
    actor = (("fathom-actor", "controllers/overrides"),)
    checker.commit(made(override("o", {"drain": True})))
    going = pod("p", evicted="uid-o")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert checker.commit(seen("pods", "p", pod("p"), going, headers=actor)) is None
    unknown = pod("p", evicted="another")
    unknown["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "no UID" in str(checker.commit(seen("pods", "p", pod("p"), unknown, headers=actor)))
    route: Obj = {"metadata": {"name": "r"}}
    assert "no UID" in str(checker.commit(seen("trafficroutes.fathom.dev", "r", None, route, headers=actor)))


def test_an_override_that_reaches_further_than_the_limits_or_than_was_counted_is_found() -> None:
    checker = BlastRadiusWithinLimits()
    node = {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "a"}}}
    checker.commit(seen("nodes", "n", None, node))
    checker.commit(seen("steeringlimits.fathom.dev", "default", None, {"spec": {"maxPods": 3}}))
    cordon = {"cordon": True}
    good = override("o", cordon, target="zone/a", blastRadius={"nodes": 1, "pods": 3})
    assert checker.commit(made(good)) is None
    wide = override("o", cordon, target="zone/a", blastRadius={"nodes": 1, "pods": 4})
    assert "maxPods is 3" in str(checker.commit(made(wide)))
    wrong = override("o", cordon, target="zone/a", blastRadius={"nodes": 0})
    assert "concerns 1 nodes" in str(checker.commit(made(wrong)))


@pytest.mark.parametrize(("others", "wrong"), [(0, 1), (1, 0)])
def test_the_eviction_of_the_last_healthy_replica_is_found(others: int, wrong: int) -> None:
    checker = LastHealthyReplicaStays()
    for number in range(1 + others):
        checker.commit(seen("pods", f"p-{number}", None, pod(f"p-{number}")))
    evicted = seen("pods", "p-0", pod("p-0"), pod("p-0", evicted="uid-o"), at_s=100)
    assert (checker.commit(evicted) is not None) == bool(wrong)


def test_too_many_accounts_that_are_moved_at_once_are_found() -> None:
    def moved(apart_s: float) -> list[object]:
        checker: Checker = UndoneAFewAtATime()
        return [
            checker.commit(
                seen(
                    "pods",
                    f"p-{number}",
                    pod(f"p-{number}", account="default///uid-o"),
                    pod(f"p-{number}", account="default//"),
                    at_s=number * apart_s,
                )
            )
            for number in range(40)
        ]

    assert not any(moved(0.06))
    assert "accounts of override uid-o" in str(moved(0.01)[-1])


@pytest.mark.parametrize(("account", "wrong"), [("default///uid-o", 0), ("default///uid-other", 1), ("", 1)])
def test_a_placement_by_an_override_that_is_not_on_its_account_is_found(account: str, wrong: int) -> None:
    checker = EffectsCarryTheUid()
    checker.commit(made(override("o", {"allowReservedCapacityClass": "gold"})))
    placed = pod("p", account=account, node="n")
    placed["metadata"]["annotations"]["fathom.dev/overrides"] = "default/o"
    assert (checker.commit(seen("pods", "p", pod("p"), placed)) is not None) == bool(wrong)


def weighted(routes: list[int], mark: str = "") -> Obj:
    notes = {"annotations": {"fathom.dev/override": mark}} if mark else {}
    return {"metadata": {"name": "web", "uid": "r", **notes}, "spec": {"routes": routes}}


@pytest.mark.parametrize(
    ("between", "at_the_end", "wrong"),
    [
        ([9], [1], False),  # Nobody has touched it.
        ([9], [9], True),
        ([5], [5], False),
        ([5], [1], True),
    ],
)
def test_weights_that_a_person_has_written_stay(
    between: list[int], at_the_end: list[int], wrong: bool
) -> None:
    judge, mark = PeoplesWeightsStay(), "default/east@u"
    ours: dict[str, Any] = {"headers": ((ACTOR_HEADER, "controllers/overrides"),)}
    route = "trafficroutes.fathom.dev"
    assert judge.commit(seen(route, "web", weighted([1]), weighted([9], mark), **ours)) is None
    assert judge.commit(seen(route, "web", weighted([9], mark), weighted(between, mark))) is None
    end = seen(route, "web", weighted(between, mark), weighted(at_the_end), **ours)
    assert (judge.commit(end) is not None) == wrong
