"""Everything that can go wrong, as values: each has a time, a target, and an end.

A run is (scenario, seed, faults): the same three give the same run. Faults are drawn from a stream of their
own, so that taking one away, as shrinking does, does not move the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from fathom.seams.seam import Ask

if TYPE_CHECKING:
    from fathom.sim.engine import Engine

SECOND_NS = 1_000_000_000


class Fault(msgspec.Struct, frozen=True, tag_field="fault", kw_only=True):
    """`target` is a process; '*' means any. `match` narrows it to asks whose "METHOD path" contains it."""

    at_s: float
    target: str = "*"
    for_s: float = 0.0  # How long it lasts; 0: until it has happened `times`.
    match: str = ""
    times: int = 1

    once: ClassVar[bool] = False  # Happens at a moment, not to messages.

    def concerns(self, process: str, ask: Ask) -> bool:
        if self.target not in {"*", process}:
            return False
        return not self.match or self.match in f"{ask.method} {ask.target}"


class LoseRequest(Fault, frozen=True, tag="lose-request"):
    """The server never hears of it; the client hears nothing until its deadline."""


class LoseReply(Fault, frozen=True, tag="lose-reply"):
    """The server does it; the client never learns. The classic: committed but timed out."""


class SlowReply(Fault, frozen=True, tag="slow-reply"):
    delay_s: float = 5.0


class Refuse(Fault, frozen=True, tag="refuse"):
    """The server fails before it has done anything: 500, 503, 429 or a conflict."""

    status: int = 500


class CommitUnknown(Fault, frozen=True, tag="commit-unknown"):
    """The store commits, the API server does not learn. Target: an API server."""


class CommitLost(Fault, frozen=True, tag="commit-lost"):
    """The store never hears of it, and the API server cannot tell."""


class HoldWatch(Fault, frozen=True, tag="hold-watch"):
    """What a watch has to say is held back. `match` chooses the kind: other kinds go on, so ages differ."""


class DropWatch(Fault, frozen=True, tag="drop-watch"):
    """Open watches end, as when a connection breaks."""

    once: ClassVar[bool] = True


class Compact(Fault, frozen=True, tag="compact"):
    """The store forgets its history: whoever was behind must list again."""

    once: ClassVar[bool] = True


class StaleServer(Fault, frozen=True, tag="stale-server"):
    """An API server hears nothing from the store for a while, and answers from what it knows."""


class Crash(Fault, frozen=True, tag="crash"):
    """A process dies, and starts again after `for_s`."""

    once: ClassVar[bool] = True


class CrashAtWrite(Fault, frozen=True, tag="crash-at-write"):
    """A process dies just after its n-th write has been sent, n = `times`; it starts again after `for_s`."""


class Stop(Fault, frozen=True, tag="stop"):
    """A process is asked to stop and does so gracefully; it starts again after `for_s`."""

    once: ClassVar[bool] = True


class Pause(Fault, frozen=True, tag="pause"):
    """A process does not run for a while: a collection, a stopped virtual machine. Its clock goes on."""

    once: ClassVar[bool] = True


class Skew(Fault, frozen=True, tag="skew"):
    """A process's wall clock is wrong from then on."""

    once: ClassVar[bool] = True
    skew_s: float = 30.0


class Partition(Fault, frozen=True, tag="partition"):
    """A process and the API servers cannot reach each other."""


class Happening(Fault, frozen=True, tag="happening"):
    """Something that the scenario knows by name: a node dies, a policy changes, capacity goes."""

    once: ClassVar[bool] = True
    name: str = ""


AnyFault = (
    LoseRequest
    | LoseReply
    | SlowReply
    | Refuse
    | CommitUnknown
    | CommitLost
    | HoldWatch
    | DropWatch
    | Compact
    | StaleServer
    | Crash
    | CrashAtWrite
    | Stop
    | Pause
    | Skew
    | Partition
    | Happening
)


class Faults:
    """The faults of one run, and which of them are in force."""

    def __init__(self, world: Engine, faults: Sequence[AnyFault]) -> None:
        self._world = world
        self.planned = tuple(faults)
        self.fired: dict[tuple[str, str], int] = {}  # (fault, site) -> how often: the run's coverage.
        self._left = {index: fault.times for index, fault in enumerate(self.planned)}
        self._writes: dict[str, int] = {}
        self._healed = False

    def start(self) -> None:
        for fault in self.planned:
            if fault.once:
                self._world.at(int(fault.at_s * SECOND_NS), self._happen, fault)

    def heal(self) -> None:
        """From now on nothing goes wrong any more: liveness is judged after this."""
        self._healed = True

    def message(self, process: str, ask: Ask) -> AnyFault | None:
        """The fault that meets this ask, if any; used up by it."""
        if self._healed:
            return None
        for index, fault in enumerate(self.planned):
            if not isinstance(fault, LoseRequest | LoseReply | SlowReply | Refuse):
                continue
            if self._meets(index, fault) and fault.concerns(process, ask):
                self._use(index, fault, f"{ask.method} {_shape(ask.target)}")
                return fault
        return None

    def crashes_at_write(self, process: str) -> CrashAtWrite | None:
        """Counts a write; says whether its sender dies now."""
        count = self._writes[process] = self._writes.get(process, 0) + 1
        for index, fault in enumerate(self.planned):
            if not isinstance(fault, CrashAtWrite) or fault.target != process or self._healed:
                continue
            if count == fault.times and self._left[index] > 0:
                self._left[index] = 0
                self._fired(fault, "write")
                return fault
        return None

    def fate_of_commit(self, server: str) -> str:
        if self._healed:
            return ""
        for index, fault in enumerate(self.planned):
            if not isinstance(fault, CommitUnknown | CommitLost) or fault.target not in {"*", server}:
                continue
            if self._meets(index, fault):
                self._use(index, fault, "commit")
                return "unknown" if isinstance(fault, CommitUnknown) else "lost"
        return ""

    def held_until_ns(self, process: str, ask: Ask) -> int:
        """Until when this watch's chunks are held; 0: they are not."""
        return self._lasting(HoldWatch, process, ask)

    def partitioned(self, process: str) -> bool:
        return self._lasting(Partition, process, Ask("", "")) > self._world.now_ns

    def stale_until_ns(self, server: str) -> int:
        return self._lasting(StaleServer, server, Ask("", ""))

    def _lasting(self, kind: type[Fault], process: str, ask: Ask) -> int:
        if self._healed:
            return 0
        until = 0
        for fault in self.planned:
            if isinstance(fault, kind) and fault.concerns(process, ask) and self._now_within(fault):
                self._fired(fault, _shape(ask.target))
                until = max(until, int((fault.at_s + fault.for_s) * SECOND_NS))
        return until

    def _meets(self, index: int, fault: Fault) -> bool:
        return self._left[index] > 0 and self._world.now_ns >= fault.at_s * SECOND_NS

    def _now_within(self, fault: Fault) -> bool:
        return fault.at_s * SECOND_NS <= self._world.now_ns < (fault.at_s + fault.for_s) * SECOND_NS

    def _use(self, index: int, fault: AnyFault, site: str) -> None:
        self._left[index] -= 1
        self._fired(fault, site)

    def _fired(self, fault: Fault, site: str) -> None:
        key = (type(fault).__struct_config__.tag, site)
        self.fired[str(key[0]), key[1]] = self.fired.get((str(key[0]), key[1]), 0) + 1

    def _happen(self, fault: AnyFault) -> None:
        if not self._healed:
            self._fired(fault, "")
            self._world.happen(fault)


def _shape(target: str) -> str:
    """'/api/v1/namespaces/default/pods/web-1?…' -> '/api/v1/…/pods': names are no sites."""
    path = target.partition("?")[0].split("/")
    if "namespaces" in path[:-2]:
        at = path.index("namespaces")
        path = path[:at] + path[at + 2 : at + 3] + path[at + 4 :]
    elif len(path) > 4 and path[1] == "api":
        path = path[:4] + path[5:]
    elif len(path) > 5 and path[1] == "apis":
        path = path[:5] + path[6:]
    return "/".join(path)


class Menu(msgspec.Struct, frozen=True):
    """What may go wrong in a scenario, and where: random faults are drawn from it."""

    processes: tuple[str, ...]  # Who may crash, pause, be cut off.
    servers: tuple[str, ...]
    kinds: tuple[str, ...] = ("",)  # Parts of paths whose watches and requests may be singled out.
    seconds: float = 30.0  # Faults begin within this time.
    most: int = 6


def draw(rng: random.Random, menu: Menu) -> list[AnyFault]:
    """Some faults, at random times, mostly short."""
    return [_one(rng, menu) for _ in range(rng.randrange(menu.most + 1))]


def _one(rng: random.Random, menu: Menu) -> AnyFault:
    at_s = round(rng.random() * menu.seconds, 3)
    for_s = round(0.2 + rng.expovariate(1 / 4.0), 3)
    process, server = rng.choice(menu.processes), rng.choice(menu.servers)
    match = rng.choice(menu.kinds)
    method = rng.choice(("POST", "PUT", "PATCH", "DELETE", ""))
    asks = f"{method} " if method else match
    return rng.choice(
        (
            LoseRequest(at_s=at_s, target=process, match=asks, times=rng.choice((1, 1, 3))),
            LoseReply(at_s=at_s, target=process, match=asks, times=rng.choice((1, 1, 3))),
            LoseReply(at_s=at_s, target=process, match=f"POST {match}" if match.startswith("/") else "POST "),
            SlowReply(at_s=at_s, target=process, match=asks, delay_s=for_s, times=2),
            Refuse(at_s=at_s, target=process, match=asks, status=rng.choice((500, 503, 429, 409)), times=2),
            CommitUnknown(at_s=at_s, target=server),
            CommitLost(at_s=at_s, target=server),
            HoldWatch(at_s=at_s, target=process, match=match, for_s=for_s),
            DropWatch(at_s=at_s, target=process, match=match),
            Compact(at_s=at_s),
            StaleServer(at_s=at_s, target=server, for_s=for_s),
            Crash(at_s=at_s, target=process, for_s=for_s),
            Crash(at_s=at_s, target=server, for_s=for_s / 2),
            CrashAtWrite(at_s=0, target=process, times=rng.randrange(1, 12), for_s=for_s),
            Stop(at_s=at_s, target=process, for_s=for_s),
            Pause(at_s=at_s, target=process, for_s=for_s * 3),
            Skew(at_s=at_s, target=process, skew_s=rng.choice((-40.0, -3.0, 3.0, 40.0))),
            Partition(at_s=at_s, target=process, for_s=for_s),
        )
    )
