"""LineageFault: the faults that remove what a write or a watch event depended on.

All faults of one LineageFault concern one object's chain of causes: the write, its sender, the processes that
get its watch event. It targets a moment of a recorded run, and any of several replicas that acts then: after
an earlier fault another replica may lead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fathom.sim.search.lineage_sites import Site, Support, WatchSite, WriteSite, role_of
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import (
    AnyFault,
    CommitLost,
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
    Skew,
    SlowReply,
    SlowRequest,
    StaleServer,
    Stop,
    StopAtWrite,
)

# Their writes are many, and mostly change nothing else: they come some turns later.
RESTLESS = ("leases.coordination.k8s.io", "events")
EARLIER_S = 0.001
AWAY_S = 8.0  # Longer than a lease lasts and a retry waits, shorter than most scenarios.
LATE_S = 4.0  # Late, but the client still waits for it.
LONG_S = 16.0  # The client has given up, which takes ten; heartbeats have been missing for a while.
BEHIND_S = 2.0  # Until a server that gets no watch events is behind.
SHORTLY_S = 0.5  # Between the faults of one LineageFault.
APART_S = 1.5  # Between two lineage faults at one site.
LASTING_S = 6.0  # A fault this long is lasting; lasting ones are this far apart.
TOLD_S = 1.0  # How long until a proxy answers that a request took too long.

# The strides: a smaller one gives more turns, for the faults that have broken most control planes.
FEW = 3  # With at most this many happenings in a scenario, pairs of them are tried too.
FIRST, OFTEN, SELDOM, RARELY = 1, 2, 5, 9


DISRUPTIVE = (Crash, CrashAtWrite, Happening, Pause, Stop)


class LineageFault(msgspec.Struct, frozen=True):
    name: str
    stride: int  # Of two names, the one with half the stride has twice as many turns.
    faults: tuple[AnyFault, ...]
    site: Site = ("", "", "")
    aspect: str = ""  # Tells apart those of one name.
    later: int = 0  # By how many turns it comes after others of its name.

    @property
    def at_s(self) -> float:
        return self.faults[0].at_s

    @property
    def lasts(self) -> bool:
        """A process that ended is missing for a while; a happening may have effects of any length."""
        return any(isinstance(fault, DISRUPTIVE) or fault.for_s >= LASTING_S for fault in self.faults)

    def apart_from(self, other: LineageFault) -> bool:
        """Whether both can be in one run: the effect of the first shows before the second comes."""
        near_s = LASTING_S if self.lasts and other.lasts else APART_S if self.site == other.site else 0.0
        return abs(self.at_s - other.at_s) >= near_s


Hearers = Mapping[str, frozenset[str]]  # Kind -> the roles that watch it.


def lineage_faults(support: Support, menu: Menu, hearers: Hearers) -> list[LineageFault]:
    """Only faults that the scenario's menu allows."""
    if isinstance(support, WatchSite) and not singled_out(support.resource, menu):
        return []
    candidates = (
        _of_write(support, menu, hearers) if isinstance(support, WriteSite) else _of_watch(support, menu)
    )
    aside = 0 if support.resource not in RESTLESS else 2 if _named(support.resource, menu) else 4
    return [
        msgspec.structs.replace(candidate, site=support.site, later=candidate.later + aside)
        for candidate in candidates
        if not any(fault.kind in menu.without for fault in candidate.faults)
    ]


def target_of(process: str, menu: Menu) -> str:
    """A pattern for all replicas of a process, where there are several."""
    role = role_of(process)
    return f"{role}*" if sum(role_of(name) == role for name in menu.processes) > 1 else process


def _of_write(write: WriteSite, menu: Menu, hearers: Hearers) -> Iterator[LineageFault]:
    at_s = max(0.0, round(write.at_s - EARLIER_S, 6))
    me, site = target_of(write.process, menu), f"{write.method} {_place(write)}"
    reply = LoseReply(at_s=at_s, target=me, match=site, told_s=TOLD_S)
    dies = CrashAtWrite(at_s=at_s, target=me, match=site, for_s=1.0)
    yield LineageFault("reply", OFTEN, (reply,))
    yield LineageFault("dies", OFTEN, (dies,))
    yield from _missing_events(write, menu, hearers, reply)
    yield from _happenings(at_s, menu)
    late = SlowRequest(at_s=at_s, target=me, match=site, delay_s=LATE_S, for_s=LATE_S, times=3)
    yield LineageFault("late", OFTEN, (late,))
    reply_late = SlowReply(at_s=at_s, target=me, match=site, delay_s=LATE_S, for_s=LATE_S, times=3)
    yield LineageFault("late reply", OFTEN, (reply_late,))
    yield LineageFault("stops", SELDOM, (StopAtWrite(at_s=at_s, target=me, match=site, for_s=5.0),))
    yield LineageFault("too late", OFTEN, (SlowRequest(at_s=at_s, target=me, match=site, delay_s=LONG_S),))
    yield LineageFault("silent", SELDOM, (LoseReply(at_s=at_s, target=me, match=site),))
    yield LineageFault("request", SELDOM, (LoseRequest(at_s=at_s, target=me, match=site),))
    yield LineageFault("conflict", SELDOM, (Refuse(at_s=at_s, target=me, match=site, status=409),))
    yield LineageFault("error", RARELY, (Refuse(at_s=at_s, target=me, match=site, status=500, times=3),))
    yield LineageFault("unknown", SELDOM, (CommitUnknown(at_s=at_s, target=write.server),))
    yield LineageFault("lost", RARELY, (CommitLost(at_s=at_s, target=write.server),))
    yield LineageFault("pause", SELDOM, (Pause(at_s=at_s, target=write.process, for_s=LONG_S),))
    yield LineageFault("stop", RARELY, (Stop(at_s=at_s, target=write.process, for_s=5.0),))
    yield LineageFault("skew", RARELY, (Skew(at_s=at_s, target=write.process, skew_s=40.0),))
    yield LineageFault(
        "server dies", RARELY, (CrashAtWrite(at_s=at_s, target=write.server, times=1, for_s=1.0),)
    )


def _missing_events(
    write: WriteSite, menu: Menu, hearers: Hearers, reply: LoseReply
) -> Iterator[LineageFault]:
    """A process decides from a cache without the write, or after it from an old cache of another kind: the
    sender itself; its successor when the sender dies; processes of other roles."""
    role = role_of(write.process)
    for kind in [kind for kind, roles in hearers.items() if role in roles and singled_out(kind, menu)]:
        later = 0 if kind in write.changed else 1
        for fault in _held_events(kind, write, menu, reply):
            yield msgspec.structs.replace(fault, later=later)
    other_holds = [
        HoldWatch(at_s=reply.at_s, target=target_of(name, menu), match=_watched(kind), for_s=AWAY_S)
        for kind in write.changed
        for name in menu.processes
        if role_of(name) != role and role_of(name) in hearers.get(kind, ())
    ]
    if other_holds:
        yield LineageFault("others deaf", SELDOM, tuple(dict.fromkeys(other_holds)))


def _held_events(kind: str, write: WriteSite, menu: Menu, reply: LoseReply) -> Iterator[LineageFault]:
    deaf = HoldWatch(at_s=reply.at_s, target=reply.target, match=_watched(kind), for_s=AWAY_S)
    gone = CrashAtWrite(at_s=reply.at_s, target=reply.target, match=reply.match, for_s=AWAY_S)
    yield LineageFault("deaf", OFTEN, (deaf,), aspect=kind)
    yield LineageFault("not told, and deaf", SELDOM, (reply, deaf), aspect=kind)
    peers = [name for name in menu.processes if _are_replicas(name, write.process)]
    if not peers:
        return
    yield LineageFault("gone, the next one deaf", OFTEN, (gone, deaf), aspect=kind)
    next_ones = tuple(msgspec.structs.replace(deaf, target=name) for name in peers)
    yield LineageFault("the other one deaf", SELDOM, next_ones, aspect=kind)
    for name in menu.happenings[:FEW]:
        event = Happening(at_s=round(reply.at_s + SHORTLY_S, 6), name=name)
        aspect = f"{name} {kind}"
        yield LineageFault("happening, the next one deaf", OFTEN, (*next_ones, event), aspect=aspect)


def _are_replicas(process: str, other: str) -> bool:
    return process != other and role_of(process) == role_of(other)


def _happenings(at_s: float, menu: Menu) -> Iterator[LineageFault]:
    """One happening, or, where there are few, two of them shortly after each other."""
    soon_s, later_s = round(at_s + 2 * EARLIER_S, 6), round(at_s + SHORTLY_S, 6)
    few = 1 < len(menu.happenings) <= FEW
    for name in menu.happenings:
        event = Happening(at_s=soon_s, name=name)
        yield LineageFault("happening", OFTEN if few else FIRST, (event,), aspect=name)
        for second in menu.happenings if few else ():
            if second != name:
                both = (event, Happening(at_s=later_s, name=second))
                yield LineageFault("two happenings", FIRST, both, aspect=f"{name} {second}")


def _place(write: WriteSite) -> str:
    """Its path, without the object's name: after an earlier fault the write may be of another object."""
    parts = write.path.split("/")
    at = 4 if parts[1:2] == ["api"] else 5
    at += 2 if parts[at - 1 : at] == ["namespaces"] and len(parts) > at + 1 else 0
    return "/".join(parts[:at]) + ("/" if len(parts) > at else "")


def singled_out(kind: str, menu: Menu) -> bool:
    return any(_watched(kind).startswith(part) for part in menu.kinds)


def _named(kind: str, menu: Menu) -> bool:
    return any(part and _watched(kind).startswith(part) for part in menu.kinds)


def _watched(resource: str) -> str:
    return f"/{resource.partition('.')[0]}"


def _of_watch(watch: WatchSite, menu: Menu) -> Iterator[LineageFault]:
    at_s = max(0.0, round(watch.at_s - EARLIER_S, 6))
    me, kind = watch.process, _watched(watch.resource)
    drop = DropWatch(at_s=round(at_s + 0.5, 6), target=me, match=kind)
    stale = StaleServer(at_s=at_s, target=watch.server, for_s=AWAY_S)
    yield LineageFault("half open", OFTEN, (Partition(at_s=at_s, target=me, for_s=3.0, drops=True),))
    yield LineageFault("deaf for once", OFTEN, (HoldWatch(at_s=at_s, target=me, match=kind, for_s=AWAY_S),))
    yield from _happenings(at_s, menu)
    elsewhere = [name for name in menu.servers if name != watch.server]
    for name in menu.happenings[:FEW] if elsewhere else ():
        event = Happening(at_s=round(at_s + BEHIND_S, 6), name=name)
        behind = (msgspec.structs.replace(stale, target=server) for server in elsewhere)
        yield LineageFault("happening, the other server stale", OFTEN, (*behind, event), aspect=name)
    yield LineageFault("starts anew", SELDOM, (Crash(at_s=at_s, target=me, for_s=2.0),))
    yield LineageFault("drop", SELDOM, (DropWatch(at_s=at_s, target=me, match=kind),))
    yield LineageFault("resumes from a stale server", SELDOM, (stale, drop))
    yield LineageFault(
        "lists from a stale server", SELDOM, (stale, Crash(at_s=at_s + 0.5, target=me, for_s=0.5))
    )
    forgotten = (
        Partition(at_s=at_s, target=me, for_s=3.0),
        drop,
        Compact(at_s=at_s + 1.0),
        Crash(at_s=at_s + 1.5, target=watch.server, for_s=0.5),  # The server loses its history too.
    )
    yield LineageFault("forgotten", SELDOM, forgotten)
    yield LineageFault("cut off", SELDOM, (Partition(at_s=at_s, target=me, for_s=LONG_S),))
    yield LineageFault("server dies", RARELY, (Crash(at_s=at_s, target=watch.server, for_s=2.0),))
