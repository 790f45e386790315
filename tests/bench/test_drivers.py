"""The drivers against a server that behaves, and against servers that do not."""

from __future__ import annotations

import select
from pathlib import Path

import pytest
from tests.bench.tiny_server import Manners, tiny_server

from fathom.bench.api import ApiLoad, run_api
from fathom.bench.drive import Lane, drive, listen
from fathom.bench.errors import BadTarget, BenchFailed
from fathom.bench.kubeconfig import read_target
from fathom.bench.requests import Asker
from fathom.bench.session import Against
from fathom.bench.watch import WatchLoad, run_watch
from fathom.bench.watching import StreamWatcher
from fathom.bench.wire import connect

SMALL_API = ApiLoad(connections=3, objects=20, object_bytes=300, seconds=0.05)
SMALL_WATCH = WatchLoad(watchers=4, writes=15, object_bytes=300, connections=2)


@pytest.mark.parametrize("manners", [Manners(), Manners(chunked_answers=True)], ids=["lengths", "chunks"])
def test_api_measures_every_verb_on_objects_of_the_size_asked_for(tmp_path: Path, manners: Manners) -> None:
    with tiny_server(tmp_path, manners) as server:
        result = run_api(Against(kubeconfig=tmp_path / "kubeconfig"), SMALL_API)
    assert sorted(server.objects) == [f"c-{number:06d}" for number in range(20)]
    verbs = [method for method, path in server.requests if "/configmaps" in path]
    assert (verbs.count("POST"), verbs.count("DELETE")) == (20, 1)
    assert verbs.count("PUT") > 20  # Past the second round, so a stale revision would have been refused.
    rates = (result.create_per_s, result.get_per_s, result.update_per_s, result.list_ms, result.list_all_ms)
    assert min(rates) > 0
    assert result.rss_mb is None
    assert result.server.version == "v0.0-tiny"
    assert all(0 < spread.p50 <= spread.p99 for spread in result.latency_ms.values())
    assert result.parameters == {"connections": 3, "objects": 20, "object_bytes": 300, "seconds": 0.05}


def test_connections_that_the_server_closes_between_answers_are_opened_again(tmp_path: Path) -> None:
    with tiny_server(tmp_path, Manners(close_after=3)) as server:
        run_api(Against(kubeconfig=tmp_path / "kubeconfig"), SMALL_API)
    assert sorted(server.objects) == [f"c-{number:06d}" for number in range(20)]


def test_a_connection_that_the_server_closed_while_it_was_idle_is_opened_again(tmp_path: Path) -> None:
    """kube-apiserver does so after 90 seconds: longer than it takes to bind the first pods of a benchmark."""
    with tiny_server(tmp_path, Manners(idle_s=0.05)):
        target = read_target(tmp_path / "kubeconfig")
        connection, asker = connect(target), Asker(target, namespace="n", object_bytes=1)
        answers = []

        def lane() -> Lane:
            answers.append((yield asker.get(b"/version")).status)

        for _ in range(2):
            drive([connection], [lane()])
            select.select([connection.fileno], [], [], 10)  # Readable: the server has closed it.
        connection.close()
    assert answers == [200, 200]


def test_fewer_objects_than_connections_is_a_load_like_any_other(tmp_path: Path) -> None:
    with tiny_server(tmp_path, Manners()) as server:
        run_api(Against(kubeconfig=tmp_path / "kubeconfig"), ApiLoad(4, 2, 300, 0.02))
    assert sorted(server.objects) == ["c-000000", "c-000001"]


@pytest.mark.parametrize(
    ("manners", "complaint"),
    [
        (Manners(refuse_get=429), "GET answered 429 instead of 200: slow down"),
        (Manners(forget_update=True), "an answer has no resourceVersion"),
        (Manners(drop_from_list=1), "a list has 19 items instead of 20"),
    ],
)
def test_api_gives_no_figure_for_a_wrong_answer(tmp_path: Path, manners: Manners, complaint: str) -> None:
    with tiny_server(tmp_path, manners), pytest.raises(BenchFailed, match=complaint):
        run_api(Against(kubeconfig=tmp_path / "kubeconfig"), SMALL_API)


@pytest.mark.parametrize("cut_bytes", [0, 1, 7])
def test_watch_counts_every_event_however_the_stream_is_cut(tmp_path: Path, cut_bytes: int) -> None:
    with tiny_server(tmp_path, Manners(cut_bytes=cut_bytes)) as server:
        result = run_watch(Against(kubeconfig=tmp_path / "kubeconfig"), SMALL_WATCH)
    assert len(server.objects) == 15
    assert result.events == 60
    assert result.watch_events_per_s == pytest.approx(60 / result.elapsed_s, rel=0.05)


@pytest.mark.parametrize(
    ("manners", "complaint"),
    [
        (Manners(end_watch_after=5), "the server ended a watch after 5 of 15 events"),
        (Manners(repeat_event=15), "4 watchers got 16 events instead of 15"),
        (Manners(repeat_event=3), "instead of 15|exactly once"),
        (Manners(lose_event=3, repeat_event=5), "did not receive every write exactly once"),
    ],
)
def test_watch_gives_no_figure_for_a_wrong_stream(tmp_path: Path, manners: Manners, complaint: str) -> None:
    with tiny_server(tmp_path, manners), pytest.raises(BenchFailed, match=complaint):
        run_watch(Against(kubeconfig=tmp_path / "kubeconfig"), SMALL_WATCH)


def test_a_silent_server_ends_in_a_complaint_not_in_waiting_for_ever(tmp_path: Path) -> None:
    with tiny_server(tmp_path, Manners(silent=True)):
        target = read_target(tmp_path / "kubeconfig")
        watcher = StreamWatcher(connect(target))
        watcher.connection.send(Asker(target, namespace="n", object_bytes=1).watch(revision=b"1"))
        with pytest.raises(BenchFailed, match=r"no answer for 0.2 s on 1 connections"):
            listen([watcher], stall_s=0.2)
        watcher.connection.close()


def test_a_server_that_refuses_the_token_is_named_in_its_own_words(tmp_path: Path) -> None:
    with tiny_server(tmp_path, Manners()):
        config = tmp_path / "kubeconfig"
        config.write_text(config.read_text().replace("let-me-in", "let-me-out"))
        with pytest.raises(BenchFailed, match="/version answered 401 instead of 200: Unauthorized"):
            run_api(Against(kubeconfig=config), SMALL_API)


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with tiny_server(tmp_path, Manners()):
        pass
    with pytest.raises(BadTarget, match=r"cannot connect to 127.0.0.1:\d+: Connection refused"):
        run_api(Against(kubeconfig=tmp_path / "kubeconfig"), SMALL_API)
