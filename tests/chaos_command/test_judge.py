"""The invariants of the simulator, asked about a live cluster's commits and objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fathom.chaos.judge import Judge
from fathom.model.objects import Key, Obj
from fathom.seams.seam import Ask
from fathom.sim.checkers.operators import Role, roles_of
from fathom.sim.world.invariants import Seen
from fathom.sim.world.violation import Violation

HELLO = "greetings.example.dev/default/hello"
OWNER = {"apiVersion": "example.dev/v1", "kind": "Greeting", "name": "hello", "uid": "1"}
GREETING: Obj = {"kind": "Greeting", "metadata": {"name": "hello", "namespace": "default", "uid": "1"}}
SPACE: dict[str, Obj] = {"namespaces/default": {"metadata": {"name": "default", "uid": "0"}}}


def card(name: str, *, generated: bool = False, owned: bool = True) -> Obj:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name}
    if generated:
        meta["generateName"] = "hello-"
    if owned:
        meta["ownerReferences"] = [OWNER]
    return {"kind": "ConfigMap", "metadata": meta}


def cluster(*cards: Obj) -> dict[str, Obj]:
    paths = {f"configmaps/default/{each['metadata']['name']}": each for each in cards}
    return {**SPACE, HELLO: GREETING, **paths}


def usual(*cards: Obj) -> Mapping[Role, int]:
    return {role: len(paths) for role, paths in roles_of(cluster(*cards)).items()}


def wrong(
    judge: Judge, objects: Mapping[str, Obj], *, made: bool = True
) -> list[tuple[str, tuple[str, ...]]]:
    found = judge.at_rest(objects, 10.0, made=made)
    return [(each.violation.invariant, each.violation.objects) for each in found]


def created(obj: Obj, *, revision: int = 9, resource: str = "configmaps") -> Seen:
    key = Key("default", obj["metadata"]["name"])
    return Seen(resource, key, revision, None, obj, at_s=1.0, by="operator", incarnation=1)


TWICE = "nothing is made twice for one intent"


@pytest.mark.parametrize(
    ("calm", "then"),
    [
        ("hello-x8f3q", ("hello-9zz2k", "hello-b4c1d")),
        ("hello-550e8400-e29b-41d4-a716-446655440000", ("hello-4f2a91bc", "hello-0b1e77aa")),
        ("hello-1731869000", ("hello-1731869100", "hello-1731869200")),
    ],
)
def test_what_is_made_again_under_another_random_name_is_made_twice(calm: str, then: tuple[str, ...]) -> None:
    judge = Judge(usual(card(calm)))
    paths = tuple(f"configmaps/default/{name}" for name in then)
    assert wrong(judge, cluster(*map(card, then))) == [(TWICE, paths)]


def test_what_the_server_named_is_made_twice_too() -> None:
    judge = Judge(usual(card("hello-aaaaa", generated=True)))
    objects = cluster(card("hello-bbbbb", generated=True), card("hello-ccccc", generated=True))
    assert wrong(judge, objects) == [
        (TWICE, ("configmaps/default/hello-bbbbb", "configmaps/default/hello-ccccc"))
    ]


def test_objects_with_names_of_their_own_are_not_made_twice() -> None:
    judge = Judge(usual(card("hello-0"), card("hello-1")))
    assert wrong(judge, cluster(card("hello-0"), card("hello-1"))) == []


def test_what_the_program_made_without_an_owner_counts_as_its_own() -> None:
    calm, judge = Judge(None), Judge({("the operator", "configmaps", "hello-", ()): 1})
    one, two = card("hello-x8f3q", owned=False), card("hello-9zz2k", owned=False)
    calm.commit(created(one), by_program=True, at_s=1.0)
    assert wrong(calm, cluster(one)) == []
    assert calm.counted == {("the operator", "configmaps", "hello-", ()): 1}
    for each in (one, two):
        judge.commit(created(each), by_program=True, at_s=1.0)
    paths = ("configmaps/default/hello-x8f3q", "configmaps/default/hello-9zz2k")
    assert wrong(judge, cluster(one, two)) == [(TWICE, paths)]


def test_what_was_applied_by_somebody_else_is_not_counted() -> None:
    judge = Judge(None)
    judge.commit(created(card("settings", owned=False)), by_program=False, at_s=1.0)
    assert wrong(judge, cluster(card("settings", owned=False))) == []
    assert judge.counted == {}


def test_what_is_missing_in_the_end_has_not_converged_unless_it_was_deleted() -> None:
    judge = Judge(usual(card("hello-0"), card("hello-1")))
    assert wrong(judge, cluster(card("hello-0"))) == [("converges after the faults stop", ())]
    assert wrong(judge, SPACE, made=False) == []


def test_an_orphan_a_finalizer_and_an_old_status_are_named() -> None:
    old = {**GREETING, "metadata": {**GREETING["metadata"], "generation": 2}}
    stuck = card("stuck", owned=False)
    stuck["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.dev/x"]}
    objects = {
        **SPACE,
        HELLO: {**old, "status": {"observedGeneration": 1}},
        "configmaps/default/stuck": stuck,
        "configmaps/default/orphan": {
            "metadata": {"name": "orphan", "namespace": "default", "ownerReferences": [{**OWNER, "uid": "9"}]}
        },
    }
    assert wrong(Judge(None), objects) == [
        ("nothing is orphaned when settled", ("configmaps/default/orphan",)),
        ("what was deleted goes away: finalizers are removed", ("configmaps/default/stuck",)),
        ("a status names the generation it observed", (HELLO,)),
    ]


def test_a_program_that_asks_all_the_time_is_a_hot_loop_until_something_changes() -> None:
    judge = Judge(None)
    for number in range(61):
        judge.hot_loop.sent("operator", Ask("GET", "/api/v1/configmaps?limit=5"), number / 10)
    assert [name for name, _ in wrong(judge, SPACE)] == [
        "no hot loop: an operator with nothing to do is quiet"
    ]
    judge.commit(created(card("hello-0")), by_program=True, at_s=7.0)
    assert wrong(judge, SPACE) == []


def test_a_lease_is_no_reason_to_be_busy() -> None:
    judge = Judge(None)
    for number in range(61):
        judge.hot_loop.sent("operator", Ask("GET", "/api/v1/configmaps"), number / 10)
    lease = created(card("leader", owned=False), resource="leases.coordination.k8s.io")
    judge.commit(lease, by_program=True, at_s=7.0)
    assert len(wrong(judge, SPACE)) == 1


def test_a_secret_in_an_event_is_found_when_it_is_written() -> None:
    judge = Judge(None)
    secret = {"metadata": {"name": "db"}, "data": {"password": "aHVudGVyMiE="}}
    event = {"metadata": {"name": "oops"}, "message": "cannot log in with hunter2!"}
    assert judge.commit(created(secret, resource="secrets"), by_program=False, at_s=1.0) is None
    found = judge.commit(created(event, resource="events"), by_program=True, at_s=2.0)
    assert found == Violation(
        "no secret in Events",
        "operator wrote an Event whose message contains a value of secrets/default/db.\nWhat to do: "
        "keep values of Secrets out of log messages and errors: kopf posts those as Events.",
        2.0,
        ("events/default/oops",),
    )
