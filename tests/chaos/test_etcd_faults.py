"""API servers on an etcd that goes back, is full or loses members; and servers restarted in turn."""

from __future__ import annotations

import http.client
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.chaos.endpoints import Endpoints
from tests.chaos.victim import Victim, eventually, victim
from tests.store.engines import EtcdCluster, EtcdServer, running_etcd

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, data: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"text": data}}


def readiness(server: Victim) -> tuple[int, str]:
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls, timeout=20)
    try:
        connection.request("GET", "/readyz/store")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def is_ready(server: Victim) -> bool:
    return readiness(server)[0] == 200


def names(server: Victim) -> list[str]:
    with server.client() as client:
        return [item["metadata"]["name"] for item in client.get(MAPS).obj["items"]]


def test_a_server_outlives_an_etcd_that_went_back_and_returns_with_it(tmp_path: Path) -> None:
    with (
        running_etcd(durable=True) as etcd,
        victim(tmp_path / "server", "--store", f"etcd://{etcd.endpoint}?timeout=1", "--drain", "0") as server,
    ):
        with server.client() as client:
            assert client.post(MAPS, config_map("a")).status == 201
        etcd.kill()
        (tmp_path / "empty").mkdir()
        empty = EtcdServer(tmp_path / "empty", ports=etcd.ports)
        try:
            eventually(lambda: "members disagree" in readiness(server)[1], seconds=30)
            assert server.alive
            with server.client() as client:
                answer = client.get(MAPS)
            assert (answer.status, answer.obj["reason"]) == (503, "ServiceUnavailable")
            assert "its members disagree, or it was replaced by an older copy" in answer.obj["message"]
        finally:
            empty.kill()
        etcd.start()
        eventually(lambda: is_ready(server), seconds=30)
        assert names(server) == ["a"]


def etcdctl(etcd: EtcdServer, *arguments: str) -> None:
    command = [etcd.binary("etcdctl"), f"--endpoints={etcd.endpoint}", *arguments]
    subprocess.run(command, capture_output=True, timeout=20, check=True)


def test_a_full_etcd_is_told_as_such_and_used_again_when_there_is_room(tmp_path: Path) -> None:
    with (
        running_etcd("--quota-backend-bytes=8000000") as etcd,
        victim(tmp_path / "server", "--store", f"etcd://{etcd.endpoint}", "--drain", "0") as server,
        server.client() as client,
    ):
        # Of one object, so that compaction makes room: an old etcd refuses deletions too.
        assert client.post(MAPS, config_map("large")).status == 201
        number = 0
        while client.put(f"{MAPS}/large", config_map("large", f"{number}" + "x" * 900_000)).status == 200:
            number += 1
        refused = client.post(MAPS, config_map("late"))
        assert refused.status == 503
        assert "etcd has no space left (alarm NOSPACE)" in refused.obj["message"]
        code, text = readiness(server)
        assert code == 500
        assert "etcdctl alarm disarm" in text
        revision = client.get(MAPS).revision
        etcdctl(etcd, "compact", str(revision))
        etcdctl(etcd, "defrag")
        etcdctl(etcd, "alarm", "disarm")
        eventually(lambda: is_ready(server), seconds=20)
        assert client.post(MAPS, config_map("after")).status == 201


# Restarts in turn


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Victim]]:
    with running_etcd() as etcd:
        store = ("--store", f"etcd://{etcd.endpoint}/pair", "--drain", "1")
        with victim(tmp_path / "one", *store) as one:
            shutil.copytree(one.data / "pki", tmp_path / "other" / "data" / "pki")
            with victim(tmp_path / "other", *store) as other:
                yield [one, other]


def restart_in_turn(pair: list[Victim], rounds: int) -> tuple[int, list[str]]:
    """How many requests were answered, and those that were not, while each server was restarted."""
    over = threading.Event()
    places = [(urlsplit(server.url).netloc, server.tls) for server in pair]
    clients = [Endpoints(places), Endpoints(places[::-1])]
    counts = [0, 0]

    def work(which: int) -> None:
        client, number = clients[which], 0
        while not over.is_set():
            number += 1
            client.call("POST", MAPS, config_map(f"m{which}-{number}"))
            client.call("GET", f"{MAPS}/m{which}-{number}")
            counts[which] += 2

    threads = [threading.Thread(target=work, args=(which,), daemon=True) for which in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        for server in pair:
            server.stop()
            server.start()
    over.set()
    for thread in threads:
        thread.join(30)
    return sum(counts), clients[0].failed + clients[1].failed


def test_servers_restarted_in_turn_lose_no_request(pair: list[Victim]) -> None:
    answered, failed = restart_in_turn(pair, rounds=1)
    assert failed == []
    assert answered > 20


@pytest.mark.full
def test_servers_restarted_in_turn_again_and_again_lose_no_request(pair: list[Victim]) -> None:
    answered, failed = restart_in_turn(pair, rounds=5)
    assert failed == []
    assert answered > 100


def test_a_stopping_server_says_so_before_it_refuses_anything(pair: list[Victim]) -> None:
    server = pair[0]
    with server.client() as client:
        start = client.get(MAPS).revision
        ended: list[str] = []

        def watch() -> None:
            with server.client() as watcher:
                for event in watcher.watch(f"{MAPS}?resourceVersion={start}&timeoutSeconds=60"):
                    ended.append(event["object"]["metadata"]["name"])
            ended.append("end")

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        assert client.post(MAPS, config_map("first")).status == 201
        eventually(lambda: ended == ["first"])
        server.signal(signal.SIGTERM)
        eventually(lambda: "the server is stopping" in readyz(server))
        assert client.post(MAPS, config_map("second")).status == 201
        watching.join(20)
    assert ended == ["first", "second", "end"]
    server.wait()
    server.start()


def readyz(server: Victim) -> str:
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls, timeout=20)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


# Members that stop


@pytest.mark.full
def test_a_member_that_stops_is_passed_over_and_no_acknowledged_write_is_lost(tmp_path: Path) -> None:
    """Members are stopped, not killed: the etcd of the test dependency, 3.5.1, is known to corrupt its data
    when it is killed, so a kill here would show its fault and not ours."""
    cluster = EtcdCluster(tmp_path / "etcd")
    acknowledged: list[str] = []
    over = threading.Event()
    try:
        store = ("--store", f"{cluster.url}?timeout=2", "--drain", "0")
        with victim(tmp_path / "server", *store) as server:

            def write() -> None:
                with server.client() as client:
                    number = 0
                    while not over.is_set():
                        number += 1
                        if client.post(MAPS, config_map(f"m{number}")).status == 201:
                            acknowledged.append(f"m{number}")

            writing = threading.Thread(target=write, daemon=True)
            writing.start()
            for member in cluster.members * 2:
                before = len(acknowledged)
                member.stop()
                eventually(lambda before=before: len(acknowledged) > before + 50, seconds=60)  # type: ignore[misc]
                member.start()
            over.set()
            writing.join(30)
            assert set(names(server)) >= set(acknowledged)
            eventually(lambda: is_ready(server), seconds=30)
    finally:
        over.set()
        for member in cluster.members:
            member.kill()
