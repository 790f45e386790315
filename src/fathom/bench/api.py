"""`fathom bench api`: create, get, update and list ConfigMaps over TLS, many connections at once."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Sequence

import msgspec

from fathom.bench.drive import Lane
from fathom.bench.errors import BenchFailed
from fathom.bench.requests import Asker, count_items, expect, revision_of
from fathom.bench.result import ApiResult, latency_of, this_machine
from fathom.bench.session import Against, Session, namespace, session
from fathom.bench.wire import WireAnswer, WireConnection

PAGE_ITEMS = 1000
LISTS_OF_A_PAGE, LISTS_OF_ALL = 20, 5


class ApiLoad(msgspec.Struct, frozen=True):
    connections: int = 32
    objects: int = 20_000
    object_bytes: int = 1024
    seconds: float = 5.0  # For GET and for PUT, each.


def run_api(against: Against, load: ApiLoad) -> ApiResult:
    with session(against) as server, namespace(server, object_bytes=load.object_bytes) as asker:
        return _measure(server, asker, load)


def _measure(server: Session, asker: Asker, load: ApiLoad) -> ApiResult:
    connections = server.connect(load.connections)
    shares = [_names(load, lane) for lane in range(load.connections)]
    revisions: list[dict[bytes, bytes]] = [{} for _ in shares]

    create = server.measure(
        connections, [creating(asker, share, seen) for share, seen in zip(shares, revisions, strict=True)]
    )
    rss_mb = server.rss_mb()
    until = time.perf_counter() + load.seconds
    get = server.measure(connections, [getting(asker, share, until=until) for share in shares])
    until = time.perf_counter() + load.seconds
    update = server.measure(connections, [updating(asker, seen, until=until) for seen in revisions])
    page_ms = _list(server, connections[0], asker, limit=PAGE_ITEMS, times=LISTS_OF_A_PAGE, load=load)
    all_ms = _list(server, connections[0], asker, limit=0, times=LISTS_OF_ALL, load=load)

    phases = {"create": create, "get": get, "update": update}
    return ApiResult(
        create_per_s=round(create[0].per_s, 1),
        get_per_s=round(get[0].per_s, 1),
        update_per_s=round(update[0].per_s, 1),
        list_ms=page_ms,
        list_all_ms=all_ms,
        rss_mb=rss_mb,
        ready_s=server.ready_s,
        latency_ms={name: latency_of(phase) for name, (phase, _) in phases.items()},
        cores={name: cores for name, (_, cores) in phases.items()},
        parameters=msgspec.structs.asdict(load),
        machine=this_machine(),
        server=server.server,
    )


def _names(load: ApiLoad, lane: int) -> list[bytes]:
    """A lane's own objects: no two lanes update the same one."""
    return [b"c-%06d" % number for number in range(lane, load.objects, load.connections)]


def creating(asker: Asker, names: Iterable[bytes], revisions: dict[bytes, bytes]) -> Lane:
    for name in names:
        answer = yield asker.create_one(name)
        revisions[name] = revision_of(expect(answer, 201, "POST"))


def getting(asker: Asker, names: Sequence[bytes], *, until: float) -> Lane:
    for name in itertools.cycle(names):
        if time.perf_counter() >= until:
            return
        expect((yield asker.get_one(name)), 200, "GET")


def updating(asker: Asker, revisions: dict[bytes, bytes], *, until: float) -> Lane:
    names = itertools.cycle(list(revisions))
    for stamp, name in enumerate(names, start=1):
        if time.perf_counter() >= until:
            return
        answer = yield asker.update_one(name, revision=revisions[name], stamp=stamp)
        revisions[name] = revision_of(expect(answer, 200, "PUT"))


def listing(asker: Asker, *, limit: int, times: int, answers: list[WireAnswer]) -> Lane:
    for _ in range(times):
        answers.append((yield asker.list_all(limit=limit)))


def _list(
    server: Session, connection: WireConnection, asker: Asker, *, limit: int, times: int, load: ApiLoad
) -> float:
    """The median time to list, one list at a time on one connection."""
    answers: list[WireAnswer] = []
    phase, _ = server.measure([connection], [listing(asker, limit=limit, times=times, answers=answers)])
    expected = min(limit or load.objects, load.objects)
    for answer in answers:
        if (items := count_items(expect(answer, 200, "list"))) != expected:
            raise BenchFailed(f"a list has {items} items instead of {expected}")
    return round(statistics.median(phase.latencies_ns) / 1e6, 2)
