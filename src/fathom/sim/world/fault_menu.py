"""Menu: which faults a scenario may get; `draw` chooses some of them at random."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from fathom.sim.world.faults import (
    STORE,
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
    Rebase,
    Refuse,
    Skew,
    SlowReply,
    SlowRequest,
    StaleServer,
    Stop,
    StopAtWrite,
)

METHODS = ("POST", "PUT", "PATCH", "DELETE")


class Menu(msgspec.Struct, frozen=True):
    processes: tuple[str, ...]  # Processes that may crash, pause, be partitioned.
    servers: tuple[str, ...] = ("api-1",)
    kinds: tuple[str, ...] = ("",)  # Parts of paths ('/pods') whose watches and writes may be singled out.
    happenings: tuple[str, ...] = ()  # Events that the scenario defines, by name.
    seconds: float = 30.0  # Faults begin within this time.
    most: int = 6
    without: tuple[str, ...] = ()  # Kinds of fault that this scenario cannot have.


class _Draft(msgspec.Struct, frozen=True):
    """One random choice of everything that a fault may need. All of it is drawn for every fault, so that each
    takes the same number of draws."""

    at_s: float
    for_s: float
    process: str
    server: str
    kind: str
    asks: str
    often: int
    number: int
    share: float  # In [0, 1), for parameters with only a few choices.
    happening: str


def draw(rng: random.Random, menu: Menu) -> list[AnyFault]:
    """Some faults, at random times, mostly short; in the order in which they begin."""
    makers = [make for name, make in MAKERS if name not in menu.without and _possible(name, menu)]
    faults = [rng.choice(makers)(_draft(rng, menu)) for _ in range(rng.randrange(menu.most + 1))]
    return sorted(faults, key=lambda fault: fault.at_s)


def _possible(name: str, menu: Menu) -> bool:
    return name != "happening" or bool(menu.happenings)


def _draft(rng: random.Random, menu: Menu) -> _Draft:
    kind, method = rng.choice(menu.kinds), rng.choice((*METHODS, ""))
    return _Draft(
        at_s=round(rng.random() * menu.seconds, 3),
        for_s=round(0.2 + rng.expovariate(1 / 4.0), 3),
        process=rng.choice(menu.processes),
        server=rng.choice(menu.servers),
        kind=kind,
        asks=f"{method} " if method else kind,
        often=rng.choice((1, 1, 1, 3)),
        number=rng.randrange(1, 6),
        share=rng.random(),
        happening=rng.choice(menu.happenings or ("",)),
    )


def _one_of(draft: _Draft, *choices: float) -> float:
    return choices[int(draft.share * len(choices))]


def _refuse(d: _Draft) -> AnyFault:
    status = (500, 503, 429, 409)[int(d.share * 4)]
    return Refuse(at_s=d.at_s, target=d.process, match=d.asks, status=status, times=d.often)  # type: ignore[arg-type]  # one of these four


def _partition_from_store(d: _Draft) -> AnyFault:
    return Partition(at_s=d.at_s, target=d.server, peer=STORE, for_s=d.for_s, drops=d.share < 0.5)


def _crash_at_write_of_kind(d: _Draft) -> AnyFault:
    return CrashAtWrite(at_s=d.at_s, target=d.process, match=d.kind, times=d.number, for_s=d.for_s)


def _stop_at_write_of_kind(d: _Draft) -> AnyFault:
    return StopAtWrite(at_s=d.at_s, target=d.process, match=d.kind, times=d.number, for_s=d.for_s)


# All faults that can be drawn, each entry equally likely. Lost replies and crashes at a write have several
# entries: control planes most often get those wrong.
MAKERS: tuple[tuple[str, Callable[[_Draft], AnyFault]], ...] = (
    ("lose-request", lambda d: LoseRequest(at_s=d.at_s, target=d.process, match=d.asks, times=d.often)),
    ("slow-request", lambda d: SlowRequest(at_s=d.at_s, target=d.process, match=d.asks, delay_s=d.for_s * 4)),
    ("lose-reply", lambda d: LoseReply(at_s=d.at_s, target=d.process, match=d.asks, times=d.often)),
    ("lose-reply", lambda d: LoseReply(at_s=d.at_s, target=d.process, match="POST ")),
    ("slow-request", lambda d: SlowRequest(at_s=d.at_s, target=d.process, match="/status", delay_s=d.for_s)),
    ("slow-reply", lambda d: SlowReply(at_s=d.at_s, target=d.process, match=d.asks, delay_s=d.for_s)),
    ("refuse", _refuse),
    ("commit-unknown", lambda d: CommitUnknown(at_s=d.at_s, target=d.server)),
    ("commit-lost", lambda d: CommitLost(at_s=d.at_s, target=d.server)),
    ("stale-server", lambda d: StaleServer(at_s=d.at_s, target=d.server, for_s=d.for_s)),
    ("compact", lambda d: Compact(at_s=d.at_s)),
    ("hold-watch", lambda d: HoldWatch(at_s=d.at_s, target=d.process, match=d.kind, for_s=d.for_s * 2)),
    ("drop-watch", lambda d: DropWatch(at_s=d.at_s, target=d.process, match=d.kind)),
    ("partition", lambda d: Partition(at_s=d.at_s, target=d.process, for_s=d.for_s, drops=d.share < 0.5)),
    ("partition", _partition_from_store),
    ("crash", lambda d: Crash(at_s=d.at_s, target=d.process, for_s=d.for_s)),
    ("crash", lambda d: Crash(at_s=d.at_s, target=d.server, for_s=d.for_s / 2)),
    ("crash-at-write", lambda d: CrashAtWrite(at_s=d.at_s, target=d.process, times=d.number, for_s=d.for_s)),
    ("crash-at-write", lambda d: CrashAtWrite(at_s=0.0, target=d.process, times=d.number, for_s=d.for_s)),
    ("crash-at-write", lambda d: CrashAtWrite(at_s=d.at_s, target=d.server, times=d.number, for_s=d.for_s)),
    ("crash-at-write", _crash_at_write_of_kind),
    ("stop-at-write", _stop_at_write_of_kind),
    ("stop", lambda d: Stop(at_s=d.at_s, target=d.process, for_s=d.for_s)),
    ("rebase", lambda d: Rebase(at_s=d.at_s, target=d.process, for_s=d.for_s)),
    ("pause", lambda d: Pause(at_s=d.at_s, target=d.process, for_s=d.for_s * 3)),
    ("skew", lambda d: Skew(at_s=d.at_s, target=d.process, skew_s=_one_of(d, -40.0, -3.0, 3.0, 40.0))),
    ("happening", lambda d: Happening(at_s=d.at_s, name=d.happening)),
)  # fmt: skip
