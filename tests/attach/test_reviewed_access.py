"""What a user may learn is what the cluster says, and nothing where it does not say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import pytest
from tests.api.harness import MovedClock

from fathom.api.request import RequestTarget
from fathom.ask.access import getting
from fathom.attach.reviewed_access import NAMES_MAX, NAMESPACES_MAX, ReviewedAccess, Reviews, review_of
from fathom.client.api import Api
from fathom.explain.evidence import ObjectRef
from fathom.kube.definitions.registry import Registry
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj
from fathom.model.user import User
from fathom.seams.seam import Ask, Reply, Stream

JANE = User("jane", ("developers",), "u-1", (("scopes", ("read",)),))
PODS, NODES = (Registry.builtin().by_resource(name) for name in ("pods", "nodes"))


class Cluster:
    """Answers reviews: who may `get` what, as (resource, namespace, name), '' for all."""

    def __init__(self, *allowed: tuple[str, str, str], status: int = 201) -> None:
        self.allowed = allowed
        self.status = status
        self.asked: list[Obj] = []

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        review: Obj = msgspec.json.decode(ask.body)
        wanted = review["spec"]["resourceAttributes"]
        self.asked.append(wanted)
        place = (wanted["resource"], wanted.get("namespace", ""), wanted.get("name", ""))
        is_allowed = any(
            each[0] == place[0] and each[1] in {"", place[1]} and each[2] in {"", place[2]}
            for each in self.allowed
        )
        answer = {**review, "status": {"allowed": is_allowed}}
        return Reply(self.status, msgspec.json.encode(answer if self.status == 201 else {"message": "no"}))

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        raise AssertionError


class Namespaces:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)

    def get(self, resource: str, key: Key) -> Obj | None:
        raise AssertionError

    def mentioning(self, resource: str, namespace: str, text: str) -> list[Obj]:
        raise AssertionError

    def revision(self, resource: str) -> int:
        raise AssertionError

    def last_change(self, resource: str) -> int:
        raise AssertionError

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        return [{"metadata": {"name": name}} for name in self._names]


def access_to(cluster: Cluster, clock: MovedClock | None = None) -> ReviewedAccess:
    return ReviewedAccess(Reviews(Api(cluster), clock or MovedClock()), JANE, "team")


def told(story: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(story())  # type: ignore[arg-type]  # a coroutine function


def test_the_review_names_user_and_object_whole() -> None:
    target = RequestTarget(
        verb="get", path="", group="apps", version="v1", plural="deployments", namespace="team", name="web"
    )
    assert review_of(JANE, target)["spec"] == {
        "user": "jane", "uid": "u-1", "groups": ["developers"], "extra": {"scopes": ["read"]},
        "resourceAttributes": {
            "verb": "get", "group": "apps", "version": "v1", "resource": "deployments", "namespace": "team",
            "name": "web",
        },
    }  # fmt: skip


def test_who_may_get_the_subject_may_ask_and_others_learn_nothing() -> None:
    async def story() -> None:
        assert PODS is not None
        access = access_to(Cluster(("pods", "team", "web")))
        await access.require(PODS, ObjectRef("pods", "team", "web"))
        for namespace, name in (("team", "db"), ("other", "web")):
            with pytest.raises(ApiError) as caught:
                await access.require(PODS, ObjectRef("pods", namespace, name))
            assert caught.value.code == 403
            assert (
                f'User "jane" cannot get resource "pods" in API group "" in the namespace "{namespace}"'
                in (caught.value.message)
            )

    told(story)


def test_node_names_are_for_who_may_get_all_nodes() -> None:
    async def story() -> tuple[bool, bool]:
        one, all_ = access_to(Cluster(("nodes", "", "node-1"))), access_to(Cluster(("nodes", "", "")))
        return await one.may_read_nodes(), await all_.may_read_nodes()

    assert told(story) == (False, True)


def test_readable_namespaces_are_asked_one_by_one_for_who_may_not_read_all() -> None:
    async def story() -> None:
        names = Namespaces(["a", "b", "team"])
        assert await access_to(Cluster(("pods", "", ""))).readable(names) is None
        cluster = Cluster(("pods", "team", ""), ("pods", "b", ""))
        assert await access_to(cluster).readable(names) == frozenset({"b", "team"})
        assert len(cluster.asked) == 4

    told(story)


def test_of_very_many_namespaces_the_question_s_own_is_asked_and_the_rest_is_hidden() -> None:
    async def story() -> None:
        cluster = Cluster(("pods", "team", ""), ("pods", "n-0999", ""))
        names = Namespaces([*(f"n-{number:04}" for number in range(1000)), "team"])
        assert await access_to(cluster).readable(names) == frozenset({"team"})
        assert len(cluster.asked) == NAMESPACES_MAX + 1

    told(story)


def test_decisions_are_judged_by_namespace_first_and_by_name_where_that_is_denied() -> None:
    async def story() -> None:
        assert PODS is not None
        cluster = Cluster(("pods", "team", ""), ("pods", "other", "p-1"))
        access = access_to(cluster)
        assert all([await access.may_get(PODS, "team", f"p-{number}") for number in range(500)])
        assert len(cluster.asked) == 1
        others = [await access.may_get(PODS, "other", f"p-{number}") for number in range(500)]
        assert others == [number == 1 for number in range(500)]
        assert len(cluster.asked) == 2 + NAMES_MAX

    told(story)


def test_reviews_of_names_that_no_object_has_are_not_kept() -> None:
    async def story() -> None:
        assert PODS is not None
        cluster = Cluster()
        reviews = Reviews(Api(cluster), MovedClock())
        for name in ("n" * 253, "n" * 600):
            for _ in range(2):
                assert not await reviews.may(JANE, getting(PODS, "n" * 63, name))
        assert [len(wanted["name"]) for wanted in cluster.asked] == [253, 600, 600]

    told(story)


def test_a_review_is_believed_for_some_seconds_only() -> None:
    async def story() -> None:
        clock, cluster = MovedClock(), Cluster(("nodes", "", ""))
        access = access_to(cluster, clock)
        assert await access.may_read_nodes()
        cluster.allowed = ()
        assert await access.may_read_nodes()
        clock.move(minutes=1)
        assert not await access.may_read_nodes()

    told(story)


@pytest.mark.parametrize("status", [0, 401, 403, 404, 500, 503])
def test_where_the_cluster_does_not_say_nothing_is_allowed(status: int) -> None:
    async def story() -> None:
        with pytest.raises(ApiError) as caught:
            await access_to(Cluster(("nodes", "", ""), status=status)).may_read_nodes()
        assert caught.value.code == 503

    told(story)
