"""Faults chosen from what a good outcome rested on.

    1. Tell the story without faults, and write down what followed from what.
    2. Each write of a process under test rested on its request, its reply, its writer, and on what the writer
       had heard. Take these away, one at a time: each is a plan.
    3. A plan that held has its own story: how the system recovered. Its new writes are where to strike next.

So faults build on each other only where one made the other matter. Writes that differ in nothing but the
names of objects count as one: the first, the last and a few others of them are struck. A few wounds at
different sites are tried in one run.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import count

import msgspec

from fathom.model.body import decode_json
from fathom.seams.seam import Input
from fathom.sim.chronicle import NOBODY, Asked, Chronicle, Said, Took, resource_of
from fathom.sim.faults import (
    AnyFault,
    CommitUnknown,
    Compact,
    Crash,
    CrashAtWrite,
    DropWatch,
    Happening,
    HoldWatch,
    LoseReply,
    LoseRequest,
    Partition,
    Pause,
    Refuse,
    SlowReply,
    SlowRequest,
    StaleServer,
    Stop,
)
from fathom.sim.inforce import SECOND_NS, shape
from fathom.sim.menu import Menu
from fathom.sim.network import WRITES
from fathom.sim.scenario import Plan, Result, Scenario, Telling, plan_of

# How long what is taken away stays away: longer than a lease lasts, a retry waits, a resync takes.
AWAY_S = 20.0
EARLIER_S = 0.001
LATE_S = 5.0  # Late, but somebody still waits for it.
TOGETHER = 5  # Wounds that are tried in one run.
LOOK_MAX = 30  # How many are looked at to find so many that go together.
ROUNDS_MAX = 3  # How often a plan is built on another.
DEEPER = 20  # A plan that builds on another comes after so many fresh ones.
LATER = 1
DEALT = 8  # The same in another seed's run comes after so many.
ASIDE = 6  # Heartbeats are many, and mostly about nothing else.
HAPPENINGS_SOON = 2  # The first of a menu; where there are many, the others come last.
RESTLESS = ("leases.coordination.k8s.io", "events")

DISRUPTIVE = (Crash, CrashAtWrite, Happening, Pause, Stop)

Wound = tuple[AnyFault, ...]
Site = tuple[str, str, str]


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
    about: str = ""  # Of a patch: the fields.

    @property
    def site(self) -> Site:
        return (self.process, self.method, f"{shape(self.path)} {self.about}".rstrip())


class News(msgspec.Struct, frozen=True):
    """A piece of a watch that a process under test was given."""

    process: str
    server: str
    at_s: float
    resource: str

    @property
    def site(self) -> Site:
        return (self.process, "hears of", self.resource)


Support = Write | News


class Strike(msgspec.Struct, frozen=True):
    """A wound on top of a run that held."""

    base: Plan  # Of that run.
    wound: Wound
    spot: tuple[Site, int]  # A site, and which of its namesakes.

    @property
    def mild(self) -> bool:
        """Whoever is hit goes on. After anything else the run is another one, where nothing that was planned
        would strike what it was meant to."""
        return not any(isinstance(fault, DISRUPTIVE) for fault in self.wound)


class Search:
    """Plans, the likeliest to break first. Whoever tells them says what each rested on."""

    def __init__(self, scenario: Scenario, seeds: Sequence[str]) -> None:
        """Several seeds are several good runs of one story: what is struck in one of them comes much later in
        the others, so that more different runs are struck for the same price."""
        self._bases = [
            msgspec.structs.replace(plan_of(scenario, seed), strategy="lineage", faults=scenario.scripted)
            for seed in seeds
        ]
        self._menu = scenario.menu
        self._rounds: dict[Plan, int] = dict.fromkeys(self._bases, 0)  # How often it was built on another.
        self._places = {base.seed: place for place, base in enumerate(self._bases)}
        self._untold = list(self._bases)
        self._waiting: list[tuple[int, int, Strike]] = []
        self._order = count(1).__next__
        self._numbers: dict[object, int] = {}  # Of what can be struck, in the order of first sight.
        self._seen: set[object] = set()

    def next(self, most: int) -> list[Plan]:
        """[]: nothing is left to try. Good runs are told one at a time, between strikes: what breaks easily
        breaks in the first of them."""
        told = [self._untold.pop(0)] if self._untold else []
        return [*(self._together() for _ in range(most - len(told)) if self._waiting), *told]

    def _together(self) -> Plan:
        """Several wounds in one run, where each is at another spot: most are survived, and whoever shrinks
        what is not finds out which it was."""
        _, _, first = heapq.heappop(self._waiting)
        struck, left = {first.spot: first.wound}, []
        for _ in range(min(LOOK_MAX, len(self._waiting))):
            entry = heapq.heappop(self._waiting)
            one = entry[2]
            if one.base == first.base and one.spot not in struck and first.mild and one.mild:
                struck[one.spot] = one.wound
            else:
                left.append(entry)
            if len(struck) == TOGETHER:
                break
        for entry in left:
            heapq.heappush(self._waiting, entry)
        wounds = [fault for wound in struck.values() for fault in wound]
        faults = tuple(sorted(dict.fromkeys((*first.base.faults, *wounds)), key=lambda fault: fault.at_s))
        plan = msgspec.structs.replace(first.base, faults=faults)
        self._rounds.setdefault(plan, self._rounds[first.base] + 1)
        return plan

    def learn(self, plan: Plan, supports: Sequence[Support]) -> None:
        """What this run, which held, rested on."""
        rounds = self._rounds[plan]
        if rounds >= ROUNDS_MAX:
            return
        earlier = tuple(sorted({fault.kind for fault in plan.faults}))
        for rank, key, wound in wounds(supports, self._menu):
            if (plan.seed, key, earlier) in self._seen:
                continue
            self._seen.add((plan.seed, key, earlier))
            turn = (self._numbers.setdefault(key, len(self._numbers)) + self._places[plan.seed]) % len(
                self._bases
            )
            entry = (rank + DEEPER * rounds + DEALT * turn, self._order(), Strike(plan, wound, key[:2]))
            heapq.heappush(self._waiting, entry)


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
        about=fields_of(event.body) if event.method == "PATCH" else "",
    )


def _heard(chronicle: Chronicle, asked: Asked) -> str:
    """The kind of the news that made the process ask."""
    for event in chronicle.past_of(asked.cause):
        if isinstance(event, Took) and event.cause != NOBODY:
            said = chronicle.events[event.cause]
            return said.resource if isinstance(said, Said) else ""
    return ""


def wounds(supports: Sequence[Support], menu: Menu) -> Iterator[tuple[int, tuple[Site, int, str], Wound]]:
    """(how far down the list it comes, what it strikes, its faults). Only what the story can have."""
    by_site: dict[Site, list[Support]] = {}
    for support in supports:
        by_site.setdefault(support.site, []).append(support)
    for site, group in by_site.items():
        aside = ASIDE if group[0].resource in RESTLESS else 0
        for late, place in enumerate(places(len(group))):
            struck = group[place]
            kinds = _of_write(struck, menu) if isinstance(struck, Write) else _of_news(struck, menu)
            allowed = [(name, wound) for name, wound in kinds if _possible(wound, menu)]
            for rank, (name, wound) in enumerate(allowed):
                # The first of its kind before its namesakes.
                yield aside + rank + LATER * late, (site, place, name), wound


def places(count: int) -> list[int]:
    """Which of so many are struck, in this order: the first, the last, for which nothing later makes up, one
    in the middle, the second, and some in between."""
    parts = (count // 2, 1, count // 4, count * 3 // 4, 2, count - 2)
    return [place for place in dict.fromkeys((0, count - 1, *parts)) if 0 <= place < count]


def fields_of(body: object) -> str:
    """What a patch is about, to the third level: 'metadata.finalizers', 'status.phase,status.podIP'."""
    if isinstance(body, bytes):
        try:
            body = decode_json(body)
        except msgspec.DecodeError:
            return ""
    return ",".join(sorted(_paths(body, 3))) if isinstance(body, dict) else ""


def _paths(obj: object, levels: int) -> Iterator[str]:
    for name, value in obj.items() if isinstance(obj, dict) else ():
        below = list(_paths(value, levels - 1)) if levels > 1 else []
        yield from (f"{name}.{path}" for path in below) if below else (str(name),)


def _possible(wound: Wound, menu: Menu) -> bool:
    return not any(fault.kind in menu.without for fault in wound)


def _of_write(write: Write, menu: Menu) -> Iterator[tuple[str, Wound]]:
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
    others = [
        HoldWatch(at_s=at_s, target=name, match=own, for_s=AWAY_S) for name in menu.processes if name != me
    ]
    gone = msgspec.structs.replace(dies, for_s=AWAY_S)  # So that one of the others follows it.
    yield "reply", (reply,)
    yield "dies", (dies,)
    if others:
        yield "gone, others deaf", (gone, *others)
    for name in menu.happenings[:HAPPENINGS_SOON]:
        yield from _event(name, at_s, others)
    yield "late", (SlowRequest(at_s=at_s, target=me, match=site, delay_s=LATE_S),)
    yield "deaf", (deaf,)
    yield "late reply", (SlowReply(at_s=at_s, target=me, match=site, delay_s=LATE_S),)
    yield "far too late", (SlowRequest(at_s=at_s, target=me, match=site, delay_s=AWAY_S),)
    yield "dies deaf", (dies, deaf)
    yield "reply deaf", (reply, deaf)
    yield "deaf to news", (HoldWatch(at_s=max(0.0, at_s - 0.05), target=me, match=news, for_s=AWAY_S),)
    yield "reply dies deaf", (reply, dies, deaf)
    yield "request", (LoseRequest(at_s=at_s, target=me, match=site),)
    yield "unknown", (CommitUnknown(at_s=at_s, target=write.server),)
    yield "stop", (Stop(at_s=at_s, target=me, for_s=5.0),)
    yield "conflict", (Refuse(at_s=at_s, target=me, match=site, status=409),)
    yield "error", (Refuse(at_s=at_s, target=me, match=site, status=500, times=3),)
    yield "pause", (Pause(at_s=at_s, target=me, for_s=2 * AWAY_S),)
    yield "server dies", (CrashAtWrite(at_s=at_s, target=write.server, times=1, for_s=1.0),)
    for name in menu.happenings[HAPPENINGS_SOON:]:
        yield from _event(name, at_s, others)


def _event(name: str, at_s: float, others: Sequence[AnyFault]) -> Iterator[tuple[str, Wound]]:
    event = Happening(at_s=round(at_s + 2 * EARLIER_S, 6), name=name)
    yield f"{name}, others deaf", (event, *others)
    yield name, (event,)


def _of_news(news: News, menu: Menu) -> Iterator[tuple[str, Wound]]:
    at_s = max(0.0, round(news.at_s - EARLIER_S, 6))
    me, kind = news.process, f"/{news.resource.partition('.')[0]}"
    stale = StaleServer(at_s=at_s, target=news.server, for_s=AWAY_S)
    elsewhere = [
        StaleServer(at_s=at_s, target=one, for_s=AWAY_S) for one in menu.servers if one != news.server
    ]
    yield "half open", (Partition(at_s=at_s, target=me, for_s=3.0, drops=True),)
    for name in menu.happenings[:HAPPENINGS_SOON]:
        event = Happening(at_s=at_s + 1.0, name=name)
        yield name, (event,)
        if elsewhere:
            yield f"{name}, others stale", (*elsewhere, event)
    yield "starts anew", (Crash(at_s=at_s, target=me, for_s=2.0),)
    yield "drop", (DropWatch(at_s=at_s, target=me, match=kind),)
    yield "deaf", (HoldWatch(at_s=at_s, target=me, match=kind, for_s=AWAY_S),)
    yield (
        "forgotten",
        (
            Partition(at_s=at_s, target=me, for_s=3.0),
            Compact(at_s=at_s + 1.0),
            Crash(at_s=at_s + 1.5, target=news.server, for_s=0.5),  # It forgets too.
            DropWatch(at_s=at_s + 0.5, target=me, match=kind),
        ),
    )
    yield "relist stale", (stale, Crash(at_s=at_s + 0.5, target=me, for_s=0.5))
    yield "resume stale", (stale, DropWatch(at_s=at_s + 0.5, target=me, match=kind))
    yield "cut off", (Partition(at_s=at_s, target=me, for_s=AWAY_S),)
    yield "server dies", (Crash(at_s=at_s, target=news.server, for_s=2.0),)
