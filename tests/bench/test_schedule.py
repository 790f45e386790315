"""The scheduling bench: what it counts, and that a small run of it comes out whole."""

from __future__ import annotations

import socket
from typing import cast

import msgspec
import pytest

from fathom.bench.errors import BadTarget, BenchFailed
from fathom.bench.result import CoreUse, Machine, Server
from fathom.bench.schedule import (
    BoundPods,
    ScheduleLoad,
    ScheduleResult,
    as_json,
    as_table,
    median_rate,
    run_schedule,
    sized,
)
from fathom.bench.session import Against
from fathom.bench.wire import LAST_CHUNK, WireConnection
from fathom.bench.workloads import WORKLOADS

S = 1_000_000_000


def test_the_median_second_leaves_out_the_last_broken_one() -> None:
    seen = [
        *(S // 10 for _ in range(5)),
        *(S + 1 for _ in range(9)),
        *(2 * S + 1 for _ in range(7)),
        3 * S + 5,
    ]
    assert median_rate(0, seen) == 7.0


def test_a_short_run_is_taken_as_a_whole() -> None:
    assert median_rate(S, [S + S // 2] * 10) == 20.0


def test_a_workload_that_does_not_exist_is_said_so() -> None:
    with pytest.raises(BadTarget, match="unknown workload 'odd': choose one of basic, spread"):
        run_schedule(Against(), ScheduleLoad("odd", 1, 0, 1, 1))


def test_more_pods_than_there_is_room_for_are_refused_before_anything_starts() -> None:
    with pytest.raises(BadTarget, match="antiaffinity: 20 nodes have room for 10 pods beside the first 10"):
        run_schedule(Against(), ScheduleLoad("antiaffinity", 20, 10, 11, 1))
    with pytest.raises(BadTarget, match="room for 20 pods"):
        run_schedule(Against(), ScheduleLoad("preemption", 20, 80, 21, 1))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_is_measured_by_default_has_room_on_the_default_nodes(workload: str) -> None:
    init_pods, pods = sized(workload, None, None)
    assert pods <= WORKLOADS[workload].most_pods(5000, init_pods)
    assert sized(workload, 1, 2) == (1, 2)


@pytest.mark.parametrize("workload", ["basic", "churn"])
def test_a_small_run_binds_every_pod_and_says_what_it_took(workload: str) -> None:
    result = run_schedule(Against(), ScheduleLoad(workload, 10, 5, 40, 4))
    assert result.pods_per_s > 0
    assert result.conflicts == 0
    assert result.attempts is not None
    assert result.attempts >= 45
    assert result.recording is not None
    assert 0 < result.recording.bytes_per_decision < 3000  # Few decisions share a table here.
    found = msgspec.json.decode(as_json(result))
    assert isinstance(found["pods_per_s"], float)
    assert result.workload in as_table(result)


def test_workloads_have_the_shapes_of_scheduler_perf() -> None:
    for workload in WORKLOADS.values():
        assert workload.node(0)["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "110"}
    requests = WORKLOADS["basic"].pod(0)["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "500Mi"}


def test_what_is_not_known_of_another_cluster_is_left_out() -> None:
    result = ScheduleResult(
        workload="basic",
        pods_per_s=70.0,
        pods_per_s_p50=71.0,
        create_per_s=72.0,
        decisions_per_s=60_000.0,
        cores=CoreUse(0.5),
        parameters={"nodes": 3, "init_pods": 0, "pods": 9},
        machine=Machine(cores=2, cpu="some", python="3.11.7", kernel="Linux 6"),
        server=Server("v1.37", own=False),
    )
    assert "None" not in as_table(result)


class _Streams:
    """A connection that has these streams one after another, each with a head of its own."""

    def __init__(self, *streams: list[bytes]) -> None:
        self._streams = [[HEAD, *stream] for stream in streams]
        self.asked: list[bytes] = []
        self._readable, self._other = socket.socketpair()
        self._other.send(b"x")
        self.fileno = self._readable.fileno()

    def send(self, request: bytes) -> None:
        self.asked.append(request)

    def receive(self) -> bytes | None:
        pieces = self._streams[0]
        return pieces.pop(0) if pieces else None

    def open_again(self) -> None:
        assert not self._streams.pop(0), "what had come was not read"


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _bound(number: int) -> bytes:
    name = b'{"name":"pod-%d","resourceVersion":"%d"}' % (number, 100 + number)
    return b'{"type":"MODIFIED","object":{"metadata":%s,"spec":{"nodeName":"n"}}}\n' % name


def _watching(streams: _Streams, expected: int) -> BoundPods:
    bound = BoundPods(cast(WireConnection, streams), lambda revision: revision, expected, b"pod-")
    bound.open(b"99")
    return bound


@pytest.mark.parametrize("length", [7, 40, 1000])
def test_an_event_that_comes_in_several_chunks_is_seen(length: int) -> None:
    """kube-apiserver cuts events of more than a few kilobytes."""
    events = b"".join(map(_bound, range(3)))
    stream = b"".join(_chunk(events[at : at + length]) for at in range(0, len(events), length))
    pieces = [stream[at : at + 11] for at in range(0, len(stream), 11)]
    bound = _watching(_Streams(pieces), 3)
    assert [bound.readable() for _ in pieces][-1]
    assert len(bound.seen_ns) == 3


@pytest.mark.parametrize("end", [b"", LAST_CHUNK])
def test_a_watch_that_the_server_ends_goes_on_after_its_last_event(end: bytes) -> None:
    """kube-apiserver ends watches of clients that it finds slow."""
    streams = _Streams([_chunk(_bound(0)), _chunk(_bound(1)), end], [_chunk(_bound(2))])
    bound = _watching(streams, 3)
    assert [bound.readable() for _ in range(4)] == [False, False, False, True]
    assert streams.asked == [b"99", b"101"]


def test_a_watch_that_cannot_go_on_says_why() -> None:
    gone = b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n'
    bound = _watching(_Streams([_chunk(gone)]), 3)
    with pytest.raises(BenchFailed, match=r"0 of 3 pods.*too old"):
        bound.readable()
