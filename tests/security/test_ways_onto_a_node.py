"""Room, TenantQuota, capacity classes and cordons by an override hold for every way on to a node: a pod that
is created with `spec.nodeName`, a binding, a batch of them, a Reservation, a pod whose end is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.api.binding.cluster import (
    NODES,
    OWN,
    PODS,
    assert_kept,
    batch,
    bind,
    book,
    check_of,
    item,
    node,
    own,
)
from tests.api.binding.cluster import pod as plain_pod
from tests.api.binding.test_two_servers import Unclosed
from tests.api.harness import ADMIN, Answer, Api, serving, tell

from fathom.api.auth.static_tokens import digest
from fathom.api.ledger.accounts import NODE_BOOKS
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.schedule.loop.reservations import reservation_for
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Expect, Outcome, Write

RESERVATIONS = f"{OWN}/namespaces/default/reservations"
OVERRIDES = f"{OWN}/namespaces/fathom-system/scheduleroverrides"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CLASS = "fathom.dev/capacity-class"
MIRROR = "kubernetes.io/config.mirror"
NODE_TOKEN = "node-token"


def pod(name: str, node_name: str = "n1", **more: Any) -> Obj:
    return plain_pod(name, node_name=node_name, **more)


def reservation(name: str, *, cpu: str = "1", node_name: str = "n1", **spec: Any) -> Obj:
    wanted = {"workload": {"uid": "w", "name": name}, "intent": name, "nodeName": node_name}
    return own("Reservation", name, {**wanted, "resources": {"cpu": cpu}, **spec})


async def ordered(api: Api, target: str, changes: Obj, *, namespace: str = "fathom-system") -> Obj:
    """An override, as it was stored."""
    spec: Obj = {"target": target, "scope": "cluster", "reason": "repair", "expiresAfter": "10m"}
    spec["changes"] = changes
    made = await api.post(
        f"{OWN}/namespaces/{namespace}/scheduleroverrides", own("SchedulerOverride", "stop", spec)
    )
    assert made.status == 201, made.obj
    return dict(made.obj)


def refused(answer: Answer, check: str) -> str:
    assert (answer.status, answer.reason, check_of(answer)) == (403, "Forbidden", check), answer.obj
    assert answer.obj["details"]["causes"][0]["field"] == "spec.nodeName"
    return str(answer.obj["message"])


def test_a_pod_that_names_its_node_needs_room_there(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="4"))
        assert (await api.post(PODS, pod("first", cpu="3400m"))).status == 201
        message = refused(await api.post(PODS, pod("greedy", cpu="64")), "NodeFull")
        assert message == (
            'pods "greedy" is forbidden: node n1: cpu: 64000m more do not fit: 3400m of 4000m are taken'
        )
        assert (await api.post(PODS, pod("small", cpu="600m"))).status == 201
        refused(await api.post(f"{PODS}?dryRun=All", pod("late", cpu="1m")), "NodeFull")
        assert book(api, NODE_BOOKS, "n1")["requested"] == {"cpu": 4000, "pods": 2}
        assert_kept(api)

    tell(story, tmp_path)


def test_the_number_of_pods_and_host_ports_are_held_too(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", pods="2"))
        assert (await api.post(PODS, pod("web", port=80))).status == 201
        refused(await api.post(PODS, pod("web-2", port=80)), "NodePorts")
        assert (await api.post(PODS, pod("idle", cpu="0"))).status == 201
        refused(await api.post(PODS, pod("third", cpu="0")), "NodeFull")

    tell(story, tmp_path)


def test_a_tenants_quota_holds_by_zone_for_a_pod_that_names_its_node(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        limits = {"limits": [{"zone": "x", "resources": {"cpu": "1"}}]}
        await api.post(f"{OWN}/tenantquotas", own("TenantQuota", "default", limits))
        await api.post(NODES, node("n1", zone="x"))
        await api.post(NODES, node("n2", zone="y"))
        message = refused(await api.post(PODS, pod("p", cpu="2")), "QuotaExceeded")
        assert "quota/default-x: cpu: 2000m more do not fit: 0m of 1000m are used" in message
        assert (await api.post(PODS, pod("p", "n2", cpu="2"))).status == 201
        # Where its node is cannot be told for one that is not there: such a quota would not hold.
        refused(await api.post(PODS, pod("q", "nowhere", cpu="500m")), "NodeGone")

    tell(story, tmp_path)


def test_reserved_nodes_are_for_their_class_however_a_pod_gets_there(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        gold = {"nodeSelector": {"pool": "gold"}, "tenants": ["payments"]}
        await api.post(f"{OWN}/capacityclasses", own("CapacityClass", "gold", gold))
        await api.post(NODES, node("n1", labels={"pool": "gold"}))
        refused(await api.post(PODS, pod("p")), "ClassReserved")
        claims_it = pod("p", annotations={CLASS: "gold"})
        assert "tenant default may not use capacity class gold" in refused(
            await api.post(PODS, claims_it), "ClassReserved"
        )
        refused(await api.post(PODS, pod("p", annotations={CLASS: "silver"})), "ClassReserved")
        refused(await api.post(PODS, pod("p", "n2")), "NodeGone")
        held = await api.post(RESERVATIONS, reservation("r"))
        assert (held.status, check_of(held)) == (409, "ClassReserved")
        held = await api.post(RESERVATIONS, reservation("r", capacityClass="gold"))
        assert (held.status, check_of(held)) == (409, "ClassReserved")

    tell(story, tmp_path)


def test_an_override_lets_so_many_pods_that_name_their_node_into_a_class(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        gold = {"nodeSelector": {"pool": "gold"}, "tenants": []}
        await api.post(f"{OWN}/capacityclasses", own("CapacityClass", "gold", gold))
        await api.post(NODES, node("n1", labels={"pool": "gold"}))
        changes = {"allowReservedCapacityClass": "gold", "reservedReplicas": 1}
        made = await ordered(api, "workload/db", changes, namespace="default")
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "uid": "u", "controller": True}
        wanted: Obj = {"annotations": {CLASS: "gold"}, "ownerReferences": [owner]}
        first = await api.post(PODS, pod("db-1", **wanted))
        assert first.status == 201, first.obj
        account = first.obj["metadata"]["annotations"]["fathom.dev/account"]
        assert account == f"default//gold/{made['metadata']['uid']}"
        assert "allows 1 replicas in the class" in refused(
            await api.post(PODS, pod("db-2", **wanted)), "ClassReserved"
        )
        assert_kept(api)

    tell(story, tmp_path)


CORDONS: tuple[tuple[str, Obj], ...] = (
    ("node/n1", {"cordon": True}),
    ("node/n1", {"drain": True}),
    ("zone/x", {"cordon": True}),
    ("pool/blue", {"cordon": True}),
)


@pytest.mark.parametrize(("target", "changes"), CORDONS)
def test_a_cordon_by_an_override_holds_for_every_way(tmp_path: Path, target: str, changes: Obj) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", zone="x", labels={"fathom.dev/pool": "blue"}))
        await api.post(PODS, plain_pod("waits"))
        await api.post("/api/v1/namespaces", {"metadata": {"name": "fathom-system"}})
        await ordered(api, target, changes)
        message = refused(await api.post(PODS, pod("p")), "NodeCordoned")
        assert "override fathom-system/stop" in message
        bound = await bind(api, "waits", "n1")
        assert (bound.status, check_of(bound)) == (409, "NodeCordoned")
        [result] = await batch(api, item("waits", "n1"))
        assert result["check"] == "NodeCordoned"
        held = await api.post(RESERVATIONS, reservation("r"))
        assert (held.status, check_of(held)) == (409, "NodeCordoned")
        await api.delete(f"{OVERRIDES}/stop")
        assert (await bind(api, "waits", "n1")).status == 201

    tell(story, tmp_path)


def test_what_a_workload_is_to_avoid_holds_for_every_way(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", zone="x"))
        await api.post(NODES, node("n2", zone="y"))
        for name in ("db", "other"):
            await api.post(PODS, plain_pod(name))
        await ordered(api, "workload/db", {"avoidZones": ["x"]}, namespace="default")
        bound = await bind(api, "db", "n1")
        assert (bound.status, check_of(bound)) == (409, "NodeCordoned")
        assert (await bind(api, "other", "n1")).status == 201
        assert (await bind(api, "db", "n2")).status == 201
        await api.delete(f"{PODS}/db", {"gracePeriodSeconds": 0})
        refused(await api.post(PODS, pod("db")), "NodeCordoned")

    tell(story, tmp_path)


def test_unschedulable_taints_and_selectors_do_not_keep_a_pod_off_the_node_that_it_names(
    tmp_path: Path,
) -> None:
    """As in Kubernetes: they are the scheduler's."""

    async def story(api: Api) -> None:
        cordoned = node("n1")
        cordoned["spec"] = {
            "unschedulable": True,
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
        }
        await api.post(NODES, cordoned)
        wanted = pod("p")
        wanted["spec"]["nodeSelector"] = {"not": "there"}
        assert (await api.post(PODS, wanted)).status == 201

    tell(story, tmp_path)


def test_a_pod_may_name_a_node_that_is_not_there_yet_and_holds_its_room_when_it_comes(tmp_path: Path) -> None:
    """As in Kubernetes, where nothing has to hold there but room."""

    async def story(api: Api) -> None:
        assert (await api.post(PODS, pod("early", "n9", cpu="3"))).status == 201
        await api.post(NODES, node("n9", cpu="4"))
        await api.post(PODS, plain_pod("late", cpu="2"))
        answer = await bind(api, "late", "n9")
        assert (answer.status, check_of(answer)) == (409, "NodeFull")
        assert_kept(api)

    tell(story, tmp_path)


def as_node(api: Api, name: str) -> None:
    user = User(f"system:node:{name}", ("system:nodes", "system:authenticated"))
    admin = User("admin", ("system:masters", "system:authenticated"))
    tokens = {digest(ADMIN): admin, digest(NODE_TOKEN): user}
    api.parts.authenticator.replace_tokens({**api.parts.own_tokens, **tokens})


async def mirror(api: Api, name: str, *, cpu: str, port: int = 0) -> Obj:
    owner = (await api.get(f"{NODES}/n1")).obj["metadata"]
    ref = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": owner["uid"], "controller": True}
    return pod(name, cpu=cpu, port=port, annotations={MIRROR: "hash"}, ownerReferences=[ref])


def test_only_a_node_may_go_beyond_its_room_and_only_with_mirror_pods(tmp_path: Path) -> None:
    """What a node runs by itself is there already: the account follows. Others that call their pod one are
    judged."""

    async def story(api: Api) -> None:
        as_node(api, "n1")
        await api.post(NODES, node("n1", cpu="1"))
        static = await api.post(PODS, await mirror(api, "static", cpu="3"), token=NODE_TOKEN)
        assert static.status == 201, static.obj
        assert book(api, NODE_BOOKS, "n1")["requested"]["cpu"] == 3000
        refused(await api.post(PODS, await mirror(api, "fake", cpu="100m")), "NodeFull")
        assert_kept(api)

    tell(story, tmp_path)


def test_a_pod_that_had_ended_does_not_run_again_without_room(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="1"))
        await api.post(PODS, pod("a", cpu="1"))
        assert (await api.patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}})).status == 200
        assert (await api.post(PODS, pod("b", cpu="1"))).status == 201
        again = await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
        assert (again.status, check_of(again)) == (403, "NodeFull")
        assert book(api, NODE_BOOKS, "n1")["requested"] == {"cpu": 1000, "pods": 1}
        assert_kept(api)

    tell(story, tmp_path)


def test_the_node_of_a_pod_is_changed_by_no_update(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await api.post(PODS, plain_pod("p"))
        change = {"spec": {"nodeName": "n1"}}
        for kind in ("merge", "strategic"):
            assert (await api.patch(f"{PODS}/p", change, kind)).status == 422
        set_it = [{"op": "add", "path": "/spec/nodeName", "value": "n1"}]
        assert (await api.patch(f"{PODS}/p", set_it, "json")).status == 422
        await api.patch(f"{PODS}/p/status", change)
        assert "nodeName" not in (await api.get(f"{PODS}/p")).obj["spec"]
        more = [{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "64"}]
        assert (await api.patch(f"{PODS}/p", more, "json")).status == 422

    tell(story, tmp_path)


@pytest.mark.parametrize("servers", [1, 2])
def test_creates_and_bindings_that_race_for_a_full_node_never_overfill_it(
    tmp_path: Path, servers: int
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            apis = await _serving(stack, tmp_path, servers)
            await apis[0].post(NODES, node("n1", cpu="2", pods="110"))
            for number in range(20):
                await apis[0].post(PODS, plain_pod(f"bound-{number}", cpu="300m"))
            for api in apis:
                await api.core.catch_up()
            answers = await asyncio.gather(*_all_at_once(apis))
            assert {answer.status for answer in answers} <= {201, 403, 409, 429}
            await apis[0].core.catch_up()
            assert book(apis[0], NODE_BOOKS, "n1")["requested"] == {"cpu": 1800, "pods": 6}
            assert_kept(apis[0])

    asyncio.run(main())


def _all_at_once(apis: list[Api]) -> Iterator[Any]:
    for number in range(20):
        yield apis[number % len(apis)].post(PODS, pod(f"created-{number}", cpu="300m"))
        yield bind(apis[(number + 1) % len(apis)], f"bound-{number}", "n1")


async def _serving(stack: AsyncExitStack, data: Path, count: int) -> list[Api]:
    store = MemoryStore()
    apis: list[Api] = []
    for number in range(count):
        (data / str(number)).mkdir()
        shared: Any = Unclosed(store)
        apis.append(
            await stack.enter_async_context(serving(data / str(number), shared, shared_store=count > 1))
        )
    return apis


class Interrupted:
    """The store of one of two servers: something happens just before its next commit that concerns a pod."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.first: Callable[[], Awaitable[object]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        first = self.first
        if first is not None and any(one.key.startswith(("/registry/pods/", RESERVED)) for one in writes):
            self.first = None
            await first()
        return await self._store.commit(preconditions, writes)

    async def close(self) -> None: ...


RESERVED = "/registry/reservations.fathom.dev/"
WAYS: dict[str, Callable[[Api], Coroutine[Any, Any, Answer]]] = {
    "created": lambda api: api.post(PODS, pod("p")),
    "bound": lambda api: bind(api, "waits", "n1"),
    "reserved": lambda api: api.post(RESERVATIONS, reservation("r")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", ["cordon", "class"])
def test_what_was_judged_before_a_rule_was_made_is_not_committed_after_it(
    tmp_path: Path, way: str, rule: str
) -> None:
    """1. A placement is judged: nothing keeps it off the node. 2. Through another server the node is
    cordoned, or reserved for a class. 3. The placement is committed: it is judged again, and refused."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            store = MemoryStore()
            one = await stack.enter_async_context(_served(tmp_path / "a", Unclosed(store)))
            slow: Any = Interrupted(store)
            other = await stack.enter_async_context(_served(tmp_path / "b", slow))
            await one.post(NODES, node("n1", labels={"pool": "gold"}))
            await one.post(PODS, plain_pod("waits"))
            await other.core.catch_up()
            gold = own("CapacityClass", "gold", {"nodeSelector": {"pool": "gold"}, "tenants": []})
            slow.first = {
                "cordon": lambda: ordered(one, "node/n1", {"cordon": True}),
                "class": lambda: one.post(f"{OWN}/capacityclasses", gold),
            }[rule]
            answer = await WAYS[way](other)
            assert slow.first is None
            assert check_of(answer) == {"cordon": "NodeCordoned", "class": "ClassReserved"}[rule], answer.obj
            assert book(one, NODE_BOOKS, "n1") == {}

    asyncio.run(main())


def _served(data: Path, store: Any) -> AbstractAsyncContextManager[Api]:
    data.mkdir()
    return serving(data, store, shared_store=True)


# Reservations and the ResourceQuota of their namespace.


def quota(**hard: str) -> Obj:
    named = {name.replace("_", "."): value for name, value in hard.items()}
    return {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": named}}


async def used(api: Api) -> Obj:
    return dict((await api.get(f"{QUOTAS}/q")).obj["status"]["used"])


def test_a_reservation_is_charged_to_its_namespaces_quota_until_its_pod_is_bound(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="64"))
        await api.post(QUOTAS, quota(requests_cpu="4", pods="3"))
        assert (await api.post(RESERVATIONS, reservation("r", cpu="2"))).status == 201
        assert await used(api) == {"requests.cpu": "2", "pods": "1"}
        over = await api.post(RESERVATIONS, reservation("s", cpu="3"))
        assert (over.status, over.reason) == (403, "Forbidden")
        assert "exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=2" in over.obj["message"]
        assert (await api.post(PODS, plain_pod("p", cpu="2"))).status == 201
        assert (await api.post(PODS, plain_pod("q", cpu="1m"))).status == 403
        [result] = await batch(api, item("p", "n1", reservation="r"))
        assert result["status"] == "Bound", result
        assert await used(api) == {"requests.cpu": "2", "pods": "1"}
        assert_kept(api)

    tell(story, tmp_path)


def test_reservations_that_several_bindings_of_one_commit_take_over_are_all_given_back(
    tmp_path: Path,
) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="64"))
        await api.post(QUOTAS, quota(requests_cpu="40"))
        for number in range(4):
            await api.post(RESERVATIONS, reservation(f"r{number}"))
            await api.post(PODS, plain_pod(f"p{number}", cpu="1"))
        assert await used(api) == {"requests.cpu": "8"}
        results = await batch(api, *(item(f"p{n}", "n1", reservation=f"r{n}") for n in range(4)))
        assert [result["status"] for result in results] == ["Bound"] * 4
        assert await used(api) == {"requests.cpu": "4"}

    tell(story, tmp_path)


def test_a_reservation_that_ends_gives_its_quota_back_and_takes_it_again_with_its_phase(
    tmp_path: Path,
) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="64"))
        await api.post(QUOTAS, quota(cpu="4"))
        await api.post(RESERVATIONS, reservation("r", cpu="3"))
        await api.post(RESERVATIONS, reservation("nowhere", cpu="9", node_name=""))
        assert await used(api) == {"cpu": "3"}
        phase = f"{RESERVATIONS}/r/status"
        assert (await api.patch(phase, {"status": {"phase": "Released"}})).status == 200
        assert await used(api) == {"cpu": "0"}
        await api.post(PODS, plain_pod("p", cpu="2"))
        assert (await api.patch(phase, {"status": {"phase": "Active"}})).status == 403
        await api.delete(f"{PODS}/p")
        assert (await api.patch(phase, {"status": {"phase": "Active"}})).status == 200
        assert (await api.delete(f"{RESERVATIONS}/r")).status == 200
        assert await used(api) == {"cpu": "0"}

    tell(story, tmp_path)


async def holder(api: Api, name: str, **more: Any) -> tuple[Obj, Obj]:
    """A pod that waits, and the reservation that the scheduler makes when others leave for it."""
    made = (await api.post(PODS, plain_pod(name, **more))).obj
    return made, reservation_for(made, "n1", (), now_ns=api.core.outside.clock.now_ns())


def test_a_reservation_for_a_pod_that_was_charged_already_is_not_charged_again(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="64"))
        await api.post(QUOTAS, quota(requests_cpu="2", pods="1"))
        _, wanted = await holder(api, "p", cpu="2")
        made = await api.post(RESERVATIONS, wanted)
        assert made.status == 201, made.obj
        assert await used(api) == {"requests.cpu": "2", "pods": "1"}
        [result] = await batch(api, item("p", "n1", reservation=made.obj["metadata"]["name"]))
        assert result["status"] == "Bound", result
        assert await used(api) == {"requests.cpu": "2", "pods": "1"}

    tell(story, tmp_path)


def test_calling_a_reservation_a_pods_own_does_not_evade_the_quota(tmp_path: Path) -> None:
    """Of another name, for more than the pod asks, for a pod that is not there, for another one by and by."""

    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="64"))
        await api.post(QUOTAS, quota(requests_cpu="3"))
        _, wanted = await holder(api, "p", cpu="2")
        nobody = {"fathom.dev/pod-uid": "nobody"}
        meta, spec = wanted["metadata"], wanted["spec"]
        forgeries: tuple[Obj, ...] = (
            {"metadata": {**meta, "name": "another"}},
            {"spec": {**spec, "resources": {"cpu": "3"}}},
            {"metadata": {**meta, "annotations": {**meta["annotations"], **nobody}}},
            {"metadata": {**meta, "annotations": {**nobody, "fathom.dev/charged-with-pod": "nobody"}}},
        )
        for change in forgeries:
            answer = await api.post(RESERVATIONS, {**wanted, **change})
            assert answer.status == 403, answer.obj
        made = await api.post(RESERVATIONS, wanted)
        assert made.status == 201
        assert await used(api) == {"requests.cpu": "2"}
        other = (await api.post(PODS, plain_pod("tiny", cpu="1m"))).obj["metadata"]
        path = f"{RESERVATIONS}/{made.obj['metadata']['name']}"
        moved = {"fathom.dev/pod": "tiny", "fathom.dev/pod-uid": other["uid"]}
        assert (await api.patch(path, {"metadata": {"annotations": moved}})).status == 403
        stamp = {"fathom.dev/charged-with-pod": None}
        await api.patch(path, {"metadata": {"annotations": stamp}})
        assert await used(api) == {"requests.cpu": "2001m"}

    tell(story, tmp_path)


def test_a_quota_that_is_made_later_counts_what_is_reserved(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", cpu="64"))
        await api.post(RESERVATIONS, reservation("r", cpu="3"))
        _, wanted = await holder(api, "p", cpu="2")
        await api.post(RESERVATIONS, wanted)
        await api.post(QUOTAS, quota(requests_cpu="4", pods="9"))
        assert await used(api) == {"requests.cpu": "5", "pods": "2"}

    tell(story, tmp_path)
