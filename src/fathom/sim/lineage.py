"""Faults chosen from what a good outcome rested on.

    1. Tell the story without faults, and write down what followed from what.
    2. Each write of a process under test rested on its request, its reply, its writer, and on what the writer
       had heard. Take these away, one at a time: each is a plan.
    3. A plan that held has its own story: how the system recovered. Its new writes are where to strike next.

So faults come together only where one made the other matter. Writes that differ in nothing but the names of
objects count as one: the first, the second and the last of them are struck.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import count

import msgspec

from fathom.seams.seam import Input
from fathom.sim.chronicle import NOBODY, Asked, Chronicle, Said, Took, resource_of
from fathom.sim.faults import (
    AnyFault,
    CommitUnknown,
    Compact,
    Crash,
    CrashAtWrite,
    DropWatch,
    HoldWatch,
    LoseReply,
    LoseRequest,
    Partition,
    Pause,
    Refuse,
    SlowRequest,
    StaleServer,
    Stop,
)
from fathom.sim.inforce import SECOND_NS, shape
from fathom.sim.network import WRITES
from fathom.sim.scenario import Plan, Result, Scenario, Telling, plan_of

# How long what is taken away stays away: longer than a lease lasts, a retry waits, a resync takes.
AWAY_S = 20.0
EARLIER_S = 0.001
DEPTH_MAX = 4  # Faults on top of the story's own, before a plan is looked at again.
DEEPER = 10  # A plan that builds on another comes after so many fresh ones.
LATER = 3
RUNS_MAX = 400

Wound = tuple[AnyFault, ...]


class Write(msgspec.Struct, frozen=True):
    """A write that a process under test sent."""

    process: str
    server: str
    number: int  # It is the process's n-th write of the story.
    at_s: float
    method: str
    path: str
    resource: str
    heard: str  # The kind whose news it followed from; '' if none did.

    @property
    def site(self) -> tuple[str, str, str]:
        return (self.process, self.method, shape(self.path))


class News(msgspec.Struct, frozen=True):
    """A piece of a watch that a process under test was given."""

    process: str
    server: str
    at_s: float
    resource: str

    @property
    def site(self) -> tuple[str, str, str]:
        return (self.process, "hears of", self.resource)


Support = Write | News


class Search:
    """Plans, the likeliest to break first. Whoever tells them says what each rested on."""

    def __init__(self, scenario: Scenario, seed: str) -> None:
        base = msgspec.structs.replace(plan_of(scenario, seed), strategy="lineage", faults=scenario.scripted)
        self._base = base
        self._waiting: list[tuple[int, int, Plan]] = [(0, 0, base)]
        self._order = count(1).__next__
        self._seen: set[object] = {base.faults}

    def next(self, most: int) -> list[Plan]:
        """[]: nothing is left to try."""
        return [heapq.heappop(self._waiting)[2] for _ in range(min(most, len(self._waiting)))]

    def learn(self, plan: Plan, supports: Sequence[Support]) -> None:
        """What this run, which held, rested on."""
        depth = len(plan.faults) - len(self._base.faults)
        if depth >= DEPTH_MAX:
            return
        earlier = tuple(fault.kind for fault in plan.faults)
        for rank, key, wound in wounds(supports):
            faults = tuple(sorted((*plan.faults, *wound), key=lambda fault: fault.at_s))
            if faults in self._seen or (key, earlier) in self._seen:
                continue
            self._seen |= {faults, (key, earlier)}
            again = msgspec.structs.replace(plan, faults=faults)
            heapq.heappush(self._waiting, (rank + DEEPER * depth, self._order(), again))


def told(scenario: Scenario, plan: Plan) -> tuple[Result, list[Support]]:
    """One run of a search, and what it rested on."""
    chronicle = Chronicle()
    telling = Telling(scenario, plan, chronicle=chronicle)
    result = telling.run()
    return result, supports_of(chronicle, telling.engine.began_ns, frozenset(scenario.menu.processes))


def supports_of(chronicle: Chronicle, began_ns: int, processes: frozenset[str]) -> list[Support]:
    counts: dict[str, int] = {}
    servers: dict[str, str] = {}
    found: list[Support] = []
    for event in chronicle.events:
        if event.process not in processes:
            continue
        at_s = (event.at_ns - began_ns) / SECOND_NS
        if isinstance(event, Asked):
            servers[event.process] = event.server
            if event.method in WRITES:
                counts[event.process] = counts.get(event.process, 0) + 1
                found.append(_write(chronicle, event, counts[event.process], at_s))
        elif isinstance(event, Said) and event.kind is Input.CHUNK:
            found.append(News(event.process, servers[event.process], at_s, event.resource))
    return found


def _write(chronicle: Chronicle, event: Asked, number: int, at_s: float) -> Write:
    return Write(
        process=event.process,
        server=event.server,
        number=number,
        at_s=at_s,
        method=event.method,
        path=event.target.partition("?")[0],
        resource=resource_of(event.target),
        heard=_heard(chronicle, event),
    )


def _heard(chronicle: Chronicle, asked: Asked) -> str:
    """The kind of the news that made the process ask."""
    for event in chronicle.past_of(asked.cause):
        if isinstance(event, Took) and event.cause != NOBODY:
            said = chronicle.events[event.cause]
            return said.resource if isinstance(said, Said) else ""
    return ""


def wounds(supports: Sequence[Support]) -> Iterator[tuple[int, object, Wound]]:
    """(how far down the list it comes, what it strikes, its faults)"""
    by_site: dict[tuple[str, str, str], list[Support]] = {}
    for support in supports:
        by_site.setdefault(support.site, []).append(support)
    for site, group in by_site.items():
        for late, place in enumerate(dict.fromkeys((0, min(1, len(group) - 1), len(group) - 1))):
            struck = group[place]
            kinds = _of_write(struck) if isinstance(struck, Write) else _of_news(struck)
            for rank, (name, wound) in enumerate(kinds):
                # The first of its kind before its namesakes.
                yield rank + LATER * late, (site, place, name), wound


def _of_write(write: Write) -> Iterator[tuple[str, Wound]]:
    """In the order of what has broken most control planes."""
    at_s = max(0.0, round(write.at_s - EARLIER_S, 6))
    me, site = write.process, f"{write.method} {write.path}"
    own, news = (
        f"/{write.resource.partition('.')[0]}",
        f"/{(write.heard or write.resource).partition('.')[0]}",
    )
    reply = LoseReply(at_s=at_s, target=me, match=site)
    dies = CrashAtWrite(at_s=0.0, target=me, times=write.number, for_s=1.0)
    deaf = HoldWatch(at_s=at_s, target=me, match=own, for_s=AWAY_S)
    yield "reply", (reply,)
    yield "dies", (dies,)
    yield "deaf", (deaf,)
    yield "dies deaf", (dies, deaf)
    yield "reply deaf", (reply, deaf)
    yield "reply dies deaf", (reply, dies, deaf)
    yield "deaf to news", (HoldWatch(at_s=max(0.0, at_s - 0.05), target=me, match=news, for_s=AWAY_S),)
    yield "request", (LoseRequest(at_s=at_s, target=me, match=site),)
    yield "late", (SlowRequest(at_s=at_s, target=me, match=site, delay_s=AWAY_S),)
    yield "unknown", (CommitUnknown(at_s=at_s, target=write.server),)
    yield "conflict", (Refuse(at_s=at_s, target=me, match=site, status=409),)
    yield "error", (Refuse(at_s=at_s, target=me, match=site, status=500, times=3),)
    yield "pause", (Pause(at_s=at_s, target=me, for_s=2 * AWAY_S),)
    yield "stop", (Stop(at_s=at_s, target=me, for_s=5.0),)
    yield "server dies", (CrashAtWrite(at_s=at_s, target=write.server, times=1, for_s=1.0),)


def _of_news(news: News) -> Iterator[tuple[str, Wound]]:
    at_s = max(0.0, round(news.at_s - EARLIER_S, 6))
    me, kind = news.process, f"/{news.resource.partition('.')[0]}"
    stale = StaleServer(at_s=at_s, target=news.server, for_s=AWAY_S)
    yield "drop", (DropWatch(at_s=at_s, target=me, match=kind),)
    yield "deaf", (HoldWatch(at_s=at_s, target=me, match=kind, for_s=AWAY_S),)
    yield "half open", (Partition(at_s=at_s, target=me, for_s=3.0, drops=True),)
    yield (
        "forget",
        (
            Partition(at_s=at_s, target=me, for_s=3.0),
            Compact(at_s=at_s + 1.0),
            DropWatch(at_s=at_s + 0.5, target=me, match=kind),
        ),
    )
    yield "relist stale", (stale, Crash(at_s=at_s + 0.5, target=me, for_s=0.5))
    yield "resume stale", (stale, DropWatch(at_s=at_s + 0.5, target=me, match=kind))
    yield "cut off", (Partition(at_s=at_s, target=me, for_s=AWAY_S),)
    yield "server dies", (Crash(at_s=at_s, target=news.server, for_s=2.0),)
