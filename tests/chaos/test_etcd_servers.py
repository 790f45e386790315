"""Two API servers on one etcd: what one has acknowledged, the other shows; what happens to one, or to etcd,
is told in Kubernetes' words and leaves no trace."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pytest
from tests.api.bending import definition
from tests.chaos.victim import GONE, Answer, Client, Victim, eventually, victim
from tests.store.engines import EtcdServer, running_etcd, writes

from fathom.model.objects import Obj
from fathom.store.etcd import EtcdStore
from fathom.store.etcd_link import EtcdOptions

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STORE_TIMEOUT_S = 1


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdServer]:
    """As it comes: progress is told by itself only every ten minutes."""
    with running_etcd() as server:
        yield server


class Pair(NamedTuple):
    one: Victim
    other: Victim


@pytest.fixture(scope="module")
def pair(etcd: EtcdServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers of one cluster: the same store, and the same keys for certificates and tokens."""
    directory = tmp_path_factory.mktemp("pair")
    store = ["--store", f"etcd://{etcd.endpoint}/pair?timeout={STORE_TIMEOUT_S}"]
    with victim(directory / "one", *store) as one:
        shutil.copytree(one.data / "pki", directory / "other" / "data" / "pki")
        with victim(directory / "other", *store) as other:
            yield Pair(one, other)


@pytest.fixture
def one(pair: Pair) -> Iterator[Client]:
    with pair.one.client() as client:
        yield client


@pytest.fixture
def other(pair: Pair) -> Iterator[Client]:
    with pair.other.client() as client:
        yield client


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def maps(one: Client, numbers: Iterator[int]) -> str:
    """Where the test's config maps are: in a namespace of its own, which both servers know."""
    name = f"test-{next(numbers)}"
    assert one.post("/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    return f"/api/v1/namespaces/{name}/configmaps"


def config_map(name: str, **data: str) -> Obj:
    return {"metadata": {"name": name}, "data": data}


def test_a_write_through_one_is_read_through_the_other_at_once(one: Client, other: Client, maps: str) -> None:
    writer, reader = one, other
    for number in range(20):
        name = f"m{number}"
        written = writer.post(maps, config_map(name, n="1"))
        assert reader.get(f"{maps}/{name}").obj == written.obj
        assert name in [obj["metadata"]["name"] for obj in reader.get(maps).obj["items"]]
        changed = writer.patch(f"{maps}/{name}", {"data": {"n": "2"}})
        assert reader.get(maps).obj["items"][0]["metadata"] == changed.obj["metadata"]
        assert reader.get(f"{maps}?fieldSelector=metadata.name={name}").obj["items"][0]["data"] == {"n": "2"}
        writer.delete(f"{maps}/{name}")
        assert reader.get(f"{maps}/{name}").status == 404
        assert reader.get(maps).obj["items"] == []
        writer, reader = reader, writer


def test_a_namespace_made_at_one_can_be_filled_through_the_other_at_once(
    one: Client, other: Client, numbers: Iterator[int]
) -> None:
    for client, another in [(one, other), (other, one)] * 5:
        name = f"test-{next(numbers)}"
        client.post("/api/v1/namespaces", {"metadata": {"name": name}})
        assert another.post(f"/api/v1/namespaces/{name}/configmaps", config_map("a")).status == 201
    missing = other.post("/api/v1/namespaces/missing/configmaps", config_map("a"))
    assert (missing.status, missing.obj["details"]["kind"]) == (404, "namespaces")


def test_lists_are_answered_soon_though_nothing_that_is_served_has_changed(
    etcd: EtcdServer, one: Client, other: Client, maps: str
) -> None:
    """etcd moves on, under another prefix. The servers' watches hear nothing of it by themselves."""
    one.post(maps, config_map("a"))
    for _ in range(3):
        move_on(etcd)
        # A server that does not hear how far etcd is gives up, and answers without items.
        assert [len(client.get(maps).obj["items"]) for client in (one, other)] == [1, 1]


def move_on(etcd: EtcdServer) -> None:
    """A commit of somebody else's."""

    async def commit() -> None:
        store = EtcdStore(EtcdOptions(endpoints=(etcd.endpoint,), prefix="/somebody-else"))
        await store.commit((), writes(a=1))
        await store.close()

    asyncio.run(commit())


def test_a_revision_told_by_one_is_waited_for_by_the_other(
    etcd: EtcdServer, one: Client, other: Client, maps: str
) -> None:
    for client, another in ((one, other), (other, one)):
        move_on(etcd)
        revision = client.get(maps).revision
        assert (
            another.get(f"{maps}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan").status == 200
        )
        with_timeout = f"{maps}?resourceVersion={revision}&timeoutSeconds=1"
        assert list(another.watch(with_timeout)) == []


def test_pages_started_at_one_go_on_at_the_other(one: Client, other: Client, maps: str) -> None:
    for name in "abcde":
        one.post(maps, config_map(name))
    names: list[str] = []
    token, clients = "", itertools.cycle((other, one))
    while True:
        page = next(clients).get(f"{maps}?limit=2&continue={token}").obj
        names += [obj["metadata"]["name"] for obj in page["items"]]
        one.post(maps, config_map(f"a-late-{len(names)}"))
        if not (token := page["metadata"].get("continue", "")):
            break
    assert names == ["a", "b", "c", "d", "e"]


def test_a_watch_at_one_sees_the_writes_through_both_in_order(pair: Pair, maps: str) -> None:
    with pair.one.client() as client:
        start = client.get(maps).revision
    written: list[tuple[int, str]] = []
    seen: dict[str, list[tuple[int, str]]] = {"one": [], "other": []}

    def watch(name: str, server: Victim) -> None:
        with server.client() as client:
            for event in client.watch(f"{maps}?resourceVersion={start}&timeoutSeconds=30"):
                meta = event["object"]["metadata"]
                seen[name].append((int(meta["resourceVersion"]), f"{event['type']} {meta['name']}"))
                if meta["name"] == "last":
                    return

    def write(server: Victim, number: int) -> None:
        with server.client() as client:
            for count in range(25):
                name = f"w{number}-{count}"
                written.append((client.post(maps, config_map(name)).revision, f"ADDED {name}"))
                changed = client.patch(f"{maps}/{name}", {"data": {"n": str(count)}})
                written.append((changed.revision, f"MODIFIED {name}"))

    watchers = [
        threading.Thread(target=watch, args=("one", pair.one), daemon=True),
        threading.Thread(target=watch, args=("other", pair.other), daemon=True),
    ]
    for watcher in watchers:
        watcher.start()
    together([partial(write, pair[n % 2], n) for n in range(4)])
    with pair.other.client() as client:
        written.append((client.post(maps, config_map("last")).revision, "ADDED last"))
    for watcher in watchers:
        watcher.join(20)
    assert seen == {"one": sorted(written), "other": sorted(written)}


def together(works: list[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [done.result() for done in [pool.submit(work) for work in works]]


def test_a_custom_kind_made_at_one_is_served_by_the_other(one: Client, other: Client) -> None:
    assert one.post(CRDS, definition("both")).status == 201
    where = "/apis/both.example.com/v1/namespaces/default/fuzzlings"
    eventually(partial(is_there, other, where))
    obj = {"kind": "Fuzzling", "apiVersion": "both.example.com/v1", "metadata": {"name": "a"}}
    made = other.post(where, obj)
    assert one.get(f"{where}/a").obj == made.obj
    assert other.delete(f"{CRDS}/fuzzlings.both.example.com").status == 200
    eventually(lambda: (one.get(where).status, other.get(where).status) == (404, 404))


def test_patches_through_both_lose_nothing(pair: Pair, one: Client, maps: str) -> None:
    one.post(maps, config_map("shared"))

    def patch(server: Victim, number: int) -> list[Answer]:
        with server.client() as client:
            return [patched(client, {f"p{number}-{count}": "x"}) for count in range(15)]

    def patched(client: Client, data: dict[str, str]) -> Answer:
        while True:  # Somebody else may be faster five times in a row: that is a 409, and says so.
            answer = client.patch(f"{maps}/shared", {"data": data})
            if answer.status != 409:
                return answer

    answers = together([partial(patch, pair[n % 2], n) for n in range(4)])
    assert {answer.status for each in answers for answer in each} == {200}
    expected = {f"p{number}-{count}": "x" for number in range(4) for count in range(15)}
    assert one.get(f"{maps}/shared").obj["data"] == expected


def test_counters_raised_through_both_with_preconditions_lose_nothing(
    pair: Pair, one: Client, maps: str
) -> None:
    one.post(maps, config_map("counter", n="0"))

    def raise_ten(server: Victim) -> None:
        with server.client() as client:
            for _ in range(10):
                while raised(client).status == 409:
                    pass

    def raised(client: Client) -> Answer:
        obj = client.get(f"{maps}/counter").obj
        return client.put(f"{maps}/counter", {**obj, "data": {"n": str(int(obj["data"]["n"]) + 1)}})

    together([partial(raise_ten, pair[n % 2]) for n in range(4)])
    assert one.get(f"{maps}/counter").obj["data"] == {"n": "40"}


def is_counted(client: Client, quota: str) -> bool:
    return "used" in client.get(quota).obj.get("status", {})


def is_there(client: Client, path: str) -> bool:
    return client.get(path).status == 200


def test_a_quota_holds_through_both(pair: Pair, one: Client, maps: str) -> None:
    namespace = maps.removesuffix("/configmaps")
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/secrets": "10"}}}
    assert one.post(f"{namespace}/resourcequotas", quota).status == 201
    for server in pair:
        with server.client() as client:
            eventually(partial(is_counted, client, f"{namespace}/resourcequotas/few"))

    def create(server: Victim, number: int) -> list[int]:
        with server.client() as client:
            return [created(client, f"s{number}-{count}") for count in range(6)]

    def created(client: Client, name: str) -> int:
        while (status := client.post(f"{namespace}/secrets", {"metadata": {"name": name}}).status) == 409:
            pass
        return status

    statuses = together([partial(create, pair[n % 2], n) for n in range(4)])
    assert sorted(status for each in statuses for status in each) == [201] * 10 + [403] * 14
    assert len(one.get(f"{namespace}/secrets").obj["items"]) == 10
    assert one.get(f"{namespace}/resourcequotas/few").obj["status"]["used"] == {"count/secrets": "10"}


def test_what_etcd_does_not_take_is_refused_by_its_size(one: Client, maps: str) -> None:
    """Its limit is 1.5 MiB, below ours."""
    spec = {"metadata": {"name": "huge"}, "data": {f"k{n}": "x" * 500_000 for n in range(2)}}
    assert one.post(maps, spec).status == 201
    assert one.post(CRDS, definition("large")).status == 201
    where = "/apis/large.example.com/v1/namespaces/default/fuzzlings"
    head = {"kind": "Fuzzling", "apiVersion": "large.example.com/v1", "metadata": {"name": "a"}}
    refused = one.post(where, {**head, "spec": {"text": "x" * 2_000_000}})
    assert (refused.status, refused.obj["reason"]) == (413, "RequestEntityTooLarge")


def test_a_silent_etcd_is_told_as_such_and_forgotten_when_it_speaks_again(
    etcd: EtcdServer, pair: Pair, one: Client, maps: str
) -> None:
    one.post(maps, config_map("before"))
    start = one.get(maps).revision
    events: list[str] = []

    def watch() -> None:
        with pair.other.client() as client:
            for event in client.watch(f"{maps}?resourceVersion={start}&timeoutSeconds=60"):
                events.append(event["object"]["metadata"]["name"])
                if events[-1] == "after":
                    return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    one.post(maps, config_map("first"))
    eventually(lambda: events)
    etcd.pause()
    try:
        answers = together(
            [
                lambda: one.get(f"{maps}/before"),
                lambda: call(pair.one, "GET", maps),
                lambda: call(pair.other, "POST", maps, config_map("unsure")),
                lambda: call(pair.other, "DELETE", f"{maps}/before"),
            ]
        )
    finally:
        etcd.resume()
    assert [answer.status for answer in answers] == [503, 503, 504, 503]
    for answer in answers:
        assert answer.obj["kind"] == "Status"
        assert answer.obj["code"] == answer.status
        assert "etcd" in answer.obj["message"]
    eventually(lambda: one.post(maps, config_map("after")).status in {201, 409}, seconds=20)
    for server in pair:
        with server.client() as client:
            eventually(partial(is_there, client, f"{maps}/after"), seconds=20)
    watcher.join(20)
    assert events in (["first", "after"], ["first", "unsure", "after"])


def call(server: Victim, method: str, path: str, body: Any = None) -> Answer:
    with server.client() as client:
        return client.call(method, path, body)


def test_the_death_of_one_does_not_disturb_the_other(pair: Pair, other: Client, maps: str) -> None:
    start = other.get(maps).revision
    seen: list[str] = []

    def watch() -> None:
        with pair.other.client() as client:
            for event in client.watch(f"{maps}?resourceVersion={start}&timeoutSeconds=30"):
                seen.append(event["object"]["metadata"]["name"])
                if seen[-1] == "last":
                    return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    acknowledged: list[str] = []

    def write() -> None:
        with pair.one.client() as client:
            for number in itertools.count():
                try:
                    if client.post(maps, config_map(f"m{number}")).status == 201:
                        acknowledged.append(f"m{number}")
                except GONE:
                    return

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    eventually(lambda: len(acknowledged) > 20)
    pair.one.kill()
    writer.join(20)
    try:
        found = [obj["metadata"]["name"] for obj in other.get(maps).obj["items"]]
        assert set(acknowledged) <= set(found)
        assert other.post(maps, config_map("last")).status == 201
        watcher.join(20)
        assert sorted([*seen]) == sorted([*found, "last"])
    finally:
        pair.one.start()
    with pair.one.client() as client:
        assert len(client.get(maps).obj["items"]) == len(found) + 1


def test_a_watch_from_before_the_server_started_ends_in_time_though_nothing_comes(
    pair: Pair, one: Client, maps: str
) -> None:
    """What it would have to tell is in etcd's past, where nothing of its kind has happened."""
    revision = one.post(maps, config_map("a")).revision
    one.post(maps, config_map("b"))
    pair.one.kill()
    pair.one.start()
    with pair.one.client() as client:
        quiet = f"/api/v1/secrets?resourceVersion={revision}&timeoutSeconds=1"
        assert list(client.watch(quiet)) == []
        known = f"{maps}?resourceVersion={revision}&timeoutSeconds=1"
        assert [event["object"]["metadata"]["name"] for event in client.watch(known)] == ["b"]
