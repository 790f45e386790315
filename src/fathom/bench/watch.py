"""`fathom bench watch`: how fast many watchers of one namespace receive every write."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from fathom.bench.drive import DriveCaller, DriveListener, Lane, Phase, listen
from fathom.bench.errors import BenchFailed
from fathom.bench.requests import Asker, expect, revision_of
from fathom.bench.result import CoreUse, WatchResult, latency_of, this_machine
from fathom.bench.session import Against, Session, ask, cores_between, namespace, session
from fathom.bench.watching import SeenEvent, StreamWatcher

# How long to look for surplus events after the last expected one.
AFTER_S = 0.2


class WatchLoad(msgspec.Struct, frozen=True):
    watchers: int = 400
    writes: int = 1000
    object_bytes: int = 512
    connections: int = 32  # That write.


def run_watch(against: Against, load: WatchLoad) -> WatchResult:
    with session(against) as server, namespace(server, object_bytes=load.object_bytes) as asker:
        watchers = _open(server, asker, load)
        writes, elapsed_s, cores = _write_and_listen(server, asker, load, watchers)
        rss_mb = server.rss_mb()
        time.sleep(AFTER_S)
        for watcher in watchers:
            watcher.drain()
        verify([watcher.events for watcher in watchers], watchers[0].kept_events(), writes=load.writes)
        return _result(server, load, writes, cores, elapsed_s=elapsed_s, rss_mb=rss_mb)


def _open(server: Session, asker: Asker, load: WatchLoad) -> list[StreamWatcher]:
    """Every watch established before the first write. The first one keeps its events, to be checked."""
    revision = revision_of(expect(ask(server.target, asker.list_all(limit=1)), 200, "list"))
    connections = server.connect(load.watchers)
    watchers = [StreamWatcher(connection, keep=number == 0) for number, connection in enumerate(connections)]
    for watcher in watchers:
        watcher.connection.send(asker.watch(revision=revision))
    listen(watchers)
    for watcher in watchers:
        watcher.expect(load.writes)
    return watchers


def _write_and_listen(
    server: Session, asker: Asker, load: WatchLoad, watchers: Sequence[StreamWatcher]
) -> tuple[Phase, float, CoreUse]:
    latencies_ns: list[int] = []
    ended_at: list[float] = []
    lanes = [writing(asker, _names(load, lane), ended_at) for lane in range(load.connections)]
    connections = server.connect(load.connections)
    callers = [DriveCaller(*pair, latencies_ns) for pair in zip(connections, lanes, strict=True)]

    before, began = server.usage(), time.perf_counter()
    started: list[DriveListener] = [caller for caller in callers if caller.start()]
    listen([*started, *watchers])
    elapsed_s, cores = time.perf_counter() - began, cores_between(before, server.usage())
    return Phase(latencies_ns, max(ended_at) - began), elapsed_s, cores


def _names(load: WatchLoad, lane: int) -> list[bytes]:
    return [_name(number).encode() for number in range(lane, load.writes, load.connections)]


def _name(number: int) -> str:
    return f"w-{number:06d}"


def writing(asker: Asker, names: Iterable[bytes], ended_at: list[float]) -> Lane:
    for name in names:
        expect((yield asker.create_one(name)), 201, "POST")
    ended_at.append(time.perf_counter())


def verify(counts: Sequence[int], kept: Sequence[SeenEvent], *, writes: int) -> None:
    """Every watcher received as many events as were written; the one that kept them received each exactly
    once, in the order of revisions."""
    if wrong := [count for count in counts if count != writes]:
        raise BenchFailed(f"{len(wrong)} watchers got {wrong[0]} events instead of {writes}")
    if other_types := {event.type for event in kept} - {"ADDED"}:
        raise BenchFailed(
            f"a watcher received events of other types than ADDED: {', '.join(sorted(other_types))}"
        )
    if sorted(event.name for event in kept) != [_name(number) for number in range(writes)]:
        raise BenchFailed("a watcher did not receive every write exactly once")
    revisions = [event.revision for event in kept]
    if revisions != sorted(set(revisions)):
        raise BenchFailed("a watcher received events out of order")


def _result(
    server: Session, load: WatchLoad, writes: Phase, cores: CoreUse, *, elapsed_s: float, rss_mb: float | None
) -> WatchResult:
    events = load.watchers * load.writes
    return WatchResult(
        watch_events_per_s=round(events / elapsed_s, 1),
        writes_per_s=round(writes.per_s, 1),
        events=events,
        elapsed_s=round(elapsed_s, 6),
        rss_mb=rss_mb,
        ready_s=server.ready_s,
        latency_ms={"write": latency_of(writes)},
        cores={"watch": cores},
        parameters=msgspec.structs.asdict(load),
        machine=this_machine(),
        server=server.server,
    )
