"""All kinds of fault, as values with a time, a target and an end; and how they are drawn.

A run is (scenario, seed, faults): the same three give the same run. Faults are drawn (`MAKERS`) from a random
stream of their own, so that taking one away, as shrinking does, does not move the others. `active_faults`
knows which of them are active at a moment.

The code where a fault takes effect asks `active_faults.ActiveFaults`: `network` for requests, replies and
watches, `store_link` for commits and reads of the store, `engine` for processes and clocks.

Times count from the beginning of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import msgspec

from fathom.seams.seam import Ask

STORE = "store"  # As the peer of a partition: between an API server and the store.


class Fault(msgspec.Struct, frozen=True, tag_field="fault", kw_only=True, omit_defaults=True):
    """`target` is a process; '*' means any but the scenario's own; 'manager-*', for faults of messages,
    watches and writes, any whose name has that prefix. `match` narrows it to requests whose "METHOD path"
    contains it."""

    at_s: float
    target: str = "*"
    for_s: float = 0.0  # How long it lasts. For faults of messages, 0 means: until it has happened `times`.
    match: str = ""
    times: int = 1

    momentary: ClassVar[bool] = False  # Happens at a moment, not to messages.

    def concerns(self, process: str, ask: Ask) -> bool:
        like = self.target.endswith("*") and process.startswith(self.target[:-1])
        if not like and self.target != process:
            return False
        return not self.match or self.match in f"{ask.method} {ask.target}"

    @property
    def kind(self) -> str:
        return str(type(self).__struct_config__.tag)


# Requests and their replies.


class LoseRequest(Fault, frozen=True, tag="lose-request"):
    """The request never reaches the server; the client waits until its deadline."""


class SlowRequest(Fault, frozen=True, tag="slow-request"):
    """The request arrives late, perhaps long after its sender gave up, and is carried out then."""

    delay_s: float = 5.0


class LoseReply(Fault, frozen=True, tag="lose-reply"):
    """The server carries out the request, but the reply is lost. The classic: committed but timed out. After
    `told_s` a proxy answers that it took too long; 0: no answer, the client waits until its own deadline."""

    told_s: float = 0.0


class SlowReply(Fault, frozen=True, tag="slow-reply"):
    delay_s: float = 5.0


RefusalCode = Literal[409, 429, 500, 503]
REFUSALS: tuple[RefusalCode, ...] = (500, 503, 429, 409)


class Refuse(Fault, frozen=True, tag="refuse"):
    """The server fails before it has done anything: 500, 503, 429 or a conflict."""

    status: RefusalCode = 500


# Between an API server and the store.


class CommitUnknown(Fault, frozen=True, tag="commit-unknown"):
    """The store commits, but the API server does not get the outcome. Target: an API server."""


class CommitLost(Fault, frozen=True, tag="commit-lost"):
    """The commit never reaches the store, and the API server does not get an outcome."""


class SlowCommit(Fault, frozen=True, tag="slow-commit"):
    """A commit takes longer to reach the store: what the API server judged it by may have changed by then. No
    menu draws it; a scenario names it."""

    delay_s: float = 1.0


class StaleServer(Fault, frozen=True, tag="stale-server"):
    """An API server gets no watch events from the store for a while, and answers from its old cache."""


class Compact(Fault, frozen=True, tag="compact"):
    """The store compacts its history: clients that were behind must list again."""

    momentary: ClassVar[bool] = True


# Watches.


class HoldWatch(Fault, frozen=True, tag="hold-watch"):
    """A watch's events are delayed. `match` chooses the kind: other kinds go on, so caches differ in age."""


class DropWatch(Fault, frozen=True, tag="drop-watch"):
    """Open watches end, as when a connection breaks."""

    momentary: ClassVar[bool] = True


class Partition(Fault, frozen=True, tag="partition"):
    """A process and the API servers (or one of them; or an API server and the store) cannot reach each other.
    Neither end gets an error. Where it `drops`, messages are lost and streams stay silent for ever, as with
    a middlebox that forgot the connection; else everything arrives when it is over, as TCP retransmits it."""

    peer: str = "*"
    drops: bool = False


# Processes.


class Crash(Fault, frozen=True, tag="crash"):
    """A process dies, and starts again after `for_s`."""

    momentary: ClassVar[bool] = True


class CrashAtWrite(Fault, frozen=True, tag="crash-at-write"):
    """A process dies just after its n-th write from `at_s` on has been sent, n = `times`; of an API server:
    its n-th commit. It starts again after `for_s`."""


class StopAtWrite(CrashAtWrite, frozen=True, tag="stop-at-write"):
    """A process is asked to stop just after its n-th write, while it waits for the answer; see `Stop`."""


class Stop(Fault, frozen=True, tag="stop"):
    """A process is asked to stop, has `for_s` to do so, and starts again."""

    momentary: ClassVar[bool] = True


class Rebase(Fault, frozen=True, tag="rebase"):
    """A process is asked to restart, as its recorder does: its successor gets the state that it leaves."""

    momentary: ClassVar[bool] = True


class Pause(Fault, frozen=True, tag="pause"):
    """A process does not run for a while: a GC pause, a stopped virtual machine. Its clock goes on."""

    momentary: ClassVar[bool] = True


class Skew(Fault, frozen=True, tag="skew"):
    """A process's wall clock is wrong from then on."""

    momentary: ClassVar[bool] = True
    skew_s: float = 30.0


class Happening(Fault, frozen=True, tag="happening"):
    """An event that the scenario defines by name: a node dies, a policy changes, capacity is removed."""

    momentary: ClassVar[bool] = True
    name: str = ""


AnyFault = (
    LoseRequest
    | SlowRequest
    | LoseReply
    | SlowReply
    | Refuse
    | CommitUnknown
    | CommitLost
    | SlowCommit
    | StaleServer
    | Compact
    | HoldWatch
    | DropWatch
    | Partition
    | Crash
    | CrashAtWrite
    | StopAtWrite
    | Stop
    | Rebase
    | Pause
    | Skew
    | Happening
)

# `active_faults` selects by these two unions and by `momentary`: it needs no change for a new member of them.
# The code where it takes effect does: `network` for messages, `store_link` for commits, `engine.happen` for
# momentary faults. Faults of another sort (Partition, HoldWatch, StaleServer) have a list each there.
OfMessages = LoseRequest | SlowRequest | LoseReply | SlowReply | Refuse
OfCommits = CommitUnknown | CommitLost | SlowCommit


def sentence(fault: AnyFault) -> str:
    """'lose-reply scheduler on "POST /apis/…" for 5 s'"""
    match = f" on {fault.match!r}" if fault.match else ""
    often = f" ×{fault.times}" if fault.times > 1 and not isinstance(fault, CrashAtWrite) else ""
    lasting = f" for {fault.for_s:g} s" if fault.for_s else ""
    return f"{fault.kind} {fault.target}{_particular(fault)}{match}{often}{lasting}"


def _particular(fault: AnyFault) -> str:
    match fault:
        case LoseReply() if fault.told_s:
            return f", with a timeout answer after {fault.told_s:g} s"
        case SlowRequest() | SlowReply() | SlowCommit():
            return f" by {fault.delay_s:g} s"
        case Refuse():
            return f" with {fault.status}"
        case Partition():
            return f" from {fault.peer}{', dropping' if fault.drops else ''}"
        case CrashAtWrite():
            return f" number {fault.times}"
        case Skew():
            return f" of {fault.skew_s:g} s"
        case Happening():
            return f" {fault.name}"
    return ""


# Drawing.


class FaultDraft(msgspec.Struct, frozen=True):
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


def _one_of(draft: FaultDraft, *choices: float) -> float:
    return choices[int(draft.share * len(choices))]


def _refuse(d: FaultDraft) -> AnyFault:
    status = REFUSALS[int(d.share * 4)]
    return Refuse(at_s=d.at_s, target=d.process, match=d.asks, status=status, times=d.often)


def _partition_from_store(d: FaultDraft) -> AnyFault:
    return Partition(at_s=d.at_s, target=d.server, peer=STORE, for_s=d.for_s, drops=d.share < 0.5)


def _crash_at_write_of_kind(d: FaultDraft) -> AnyFault:
    return CrashAtWrite(at_s=d.at_s, target=d.process, match=d.kind, times=d.number, for_s=d.for_s)


def _stop_at_write_of_kind(d: FaultDraft) -> AnyFault:
    return StopAtWrite(at_s=d.at_s, target=d.process, match=d.kind, times=d.number, for_s=d.for_s)


# All faults that can be drawn, each entry equally likely. Lost replies and crashes at a write have several
# entries: control planes most often get those wrong.
MAKERS: tuple[tuple[str, Callable[[FaultDraft], AnyFault]], ...] = (
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
