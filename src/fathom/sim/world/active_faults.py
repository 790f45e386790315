"""Which faults are active now. Network, store links and engine ask here; nothing is drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fathom.model.times import SECOND_NS
from fathom.seams.seam import Ask
from fathom.sim.world.faults import (
    AnyFault,
    CrashAtWrite,
    HoldWatch,
    OfCommits,
    OfMessages,
    Partition,
    StaleServer,
)

FOREVER_NS = 1 << 62

DRIVER = "driver"  # The process that runs the scenario. No fault touches it.

NO_ASK = Ask("", "")


class FaultHost(Protocol):
    """Where faults happen: the engine of a world, or a live run (`fathom.chaos`)."""

    @property
    def now_ns(self) -> int: ...

    @property
    def began_ns(self) -> int: ...

    def at(self, at_ns: int, call: Callable[..., None], /, *args: Any) -> object: ...

    def happen(self, fault: AnyFault) -> None: ...

    def state_of(self, process: str) -> str:
        """In which state a fault meets it, in words: 'restarted, writing'. Few and coarse, so that a state
        that is new says something."""


class PlannedFaults:
    """One fault of this run. `left` counts how often it may still take effect."""

    __slots__ = ("begin_ns", "end_ns", "fault", "left")

    def __init__(self, fault: AnyFault, began_ns: int) -> None:
        self.fault = fault
        self.left = fault.times
        self.begin_ns = began_ns + round(fault.at_s * SECOND_NS)
        self.end_ns = self.begin_ns + round(fault.for_s * SECOND_NS)

    def holds(self, now_ns: int) -> bool:
        return self.begin_ns <= now_ns < self.end_ns

    def meets(self, now_ns: int) -> bool:
        """For faults that are used up: with `for_s` 0 a fault waits for the first message that it matches."""
        if self.left <= 0 or now_ns < self.begin_ns:
            return False
        return self.fault.for_s == 0 or now_ns < self.end_ns


class ActiveFaults:
    def __init__(self, world: FaultHost, faults: Sequence[AnyFault]) -> None:
        self.planned = tuple(faults)
        self.fired: dict[tuple[str, str], int] = {}  # (kind of fault, site) -> how often: the run's coverage.
        self.reached: set[tuple[str, str, str]] = set()  # (kind of fault, site, state of the process).
        self._latest: AnyFault | None = None  # The fault that fired last,
        self._before = ""  # and the kind of the one before it.
        self._world = world
        # Empty until the scenario begins, and again once the world is healed.
        self._of_messages: list[PlannedFaults] = []
        self._of_commits: list[PlannedFaults] = []
        self._crashes: list[PlannedFaults] = []
        self._partitions: list[PlannedFaults] = []
        self._holds: list[PlannedFaults] = []
        self._stale: list[PlannedFaults] = []
        self.healed = False
        self.healed_ns = FOREVER_NS
        # From the first partition or watch hold to the last: at other times none bars a stream.
        self._bars_from_ns, self._bars_until_ns = FOREVER_NS, 0
        self.quiet = True  # No fault can affect a message or stream: the network skips the lookups.
        self.store_quiet = True  # The same for traffic between API servers and the store.

    def begin(self) -> None:
        """Start the faults' clock: their times count from now, when the scenario begins."""
        began_ns = self._world.now_ns
        planned = [PlannedFaults(fault, began_ns) for fault in self.planned]
        self._of_messages = [entry for entry in planned if isinstance(entry.fault, OfMessages)]
        self._of_commits = [entry for entry in planned if isinstance(entry.fault, OfCommits)]
        self._crashes = [entry for entry in planned if isinstance(entry.fault, CrashAtWrite)]
        self._partitions = [entry for entry in planned if isinstance(entry.fault, Partition)]
        self._holds = [entry for entry in planned if isinstance(entry.fault, HoldWatch)]
        self._stale = [entry for entry in planned if isinstance(entry.fault, StaleServer)]
        self._note_bars()
        self.quiet = not (self._of_messages or self._crashes or self._partitions or self._holds)
        self.store_quiet = not (self._of_commits or self._crashes or self._partitions or self._stale)
        for entry in planned:
            if entry.fault.momentary:
                self._world.at(entry.begin_ns, self._happen, entry.fault)

    def hold_now(self, fault: HoldWatch | StaleServer) -> None:
        """Add a hold of events that the scenario itself asks for: of a watch, or of a server."""
        if self.healed:
            return
        planned = PlannedFaults(fault, self._world.began_ns)
        if isinstance(fault, StaleServer):
            self._stale.append(planned)
            self.store_quiet = False
            return
        self._holds.append(planned)
        self._note_bars()
        self.quiet = False

    def heal(self) -> None:
        """End all faults: liveness is judged after this."""
        self.healed = self.quiet = self.store_quiet = True
        self.healed_ns = self._world.now_ns
        for of_kind in (
            self._of_messages,
            self._of_commits,
            self._crashes,
            self._partitions,
            self._holds,
            self._stale,
        ):
            of_kind.clear()
        self._note_bars()

    @property
    def bar_streams(self) -> bool:
        """Whether a partition or watch hold may be active now."""
        return self._bars_from_ns <= self._world.now_ns < self._bars_until_ns

    def _note_bars(self) -> None:
        bars = (*self._partitions, *self._holds)
        self._bars_from_ns = min((entry.begin_ns for entry in bars), default=FOREVER_NS)
        self._bars_until_ns = max((entry.end_ns for entry in bars), default=0)

    def message(self, process: str, ask: Ask) -> OfMessages | None:
        """The fault that applies to this request, if any. Uses up one of its `times`."""
        now_ns = self._world.now_ns
        for entry in self._of_messages:
            if entry.meets(now_ns) and process != DRIVER and entry.fault.concerns(process, ask):
                entry.left -= 1
                self._fire(entry.fault, f"{ask.method} {shape(ask.target)}", process)
                return entry.fault  # type: ignore[return-value]  # only these are in the list
        return None

    def crash_at_write(self, process: str, ask: Ask) -> CrashAtWrite | None:
        """Count a write (or a server's commit); return the fault if its sender crashes now."""
        now_ns = self._world.now_ns
        for entry in self._crashes:
            fault = entry.fault
            if (
                entry.left <= 0
                or now_ns < entry.begin_ns
                or not fault.concerns(process, ask)
                or process == DRIVER
            ):
                continue
            entry.left -= 1
            if entry.left == 0:
                self._fire(fault, f"{ask.method} {shape(ask.target)}", process)
                return fault  # type: ignore[return-value]  # only these are in the list
        return None

    def fate_of_commit(self, server: str) -> OfCommits | None:
        now_ns = self._world.now_ns
        for entry in self._of_commits:
            if entry.fault.target in {"*", server} and entry.meets(now_ns):
                entry.left -= 1
                self._fire(entry.fault, "commit", server)
                return entry.fault  # type: ignore[return-value]  # only these are in the list
        return None

    def partition(self, process: str, peer: str) -> tuple[Partition, int] | None:
        """The partition between the two that is active now, and when it ends."""
        if process == DRIVER:
            return None
        for entry in self._partitions:
            fault = entry.fault
            assert isinstance(fault, Partition)
            if (
                entry.holds(self._world.now_ns)
                and fault.target in {"*", process}
                and _between(fault.peer, peer)
            ):
                self._fire(fault, f"to {peer}", process)
                return fault, entry.end_ns
        return None

    def hold(self, process: str, ask: Ask) -> tuple[AnyFault, int] | None:
        """The fault that holds back this watch's events now, and when it ends."""
        return self._longest(self._holds, process, ask)

    def stale(self, server: str) -> tuple[AnyFault, int] | None:
        return self._longest(self._stale, server, NO_ASK)

    def _longest(self, planned: list[PlannedFaults], process: str, ask: Ask) -> tuple[AnyFault, int] | None:
        now_ns, longest = self._world.now_ns, None
        for entry in planned:
            if entry.holds(now_ns) and process != DRIVER and entry.fault.concerns(process, ask):
                self._fire(entry.fault, shape(ask.target), process)
                if longest is None or entry.end_ns > longest[1]:
                    longest = (entry.fault, entry.end_ns)
        return longest

    def _fire(self, fault: AnyFault, site: str, process: str) -> None:
        key = (fault.kind, site)
        self.fired[key] = self.fired.get(key, 0) + 1
        if fault is not self._latest:
            self._before = "" if self._latest is None else self._latest.kind
            self._latest = fault
        self.reached.add((*key, self._state(process)))

    def _state(self, process: str) -> str:
        after = f", after {self._before}" if self._before else ""
        return f"{self._world.state_of(process)}{after}"

    def _happen(self, fault: AnyFault) -> None:
        if not self.healed:
            self._fire(fault, "", fault.target)
            self._world.happen(fault)


def _between(wanted: str, peer: str) -> bool:
    """'*' means any API server; the store must be named."""
    return wanted == peer or (wanted == "*" and peer != "store")


def shape(target: str) -> str:
    """'/api/v1/namespaces/default/pods/web-1?…' -> '/api/v1/pods': object names are left out of sites."""
    path = target.partition("?")[0].split("/")
    if "namespaces" in path[:-2]:
        at = path.index("namespaces")
        path = path[:at] + path[at + 2 : at + 3] + path[at + 4 :]
    elif len(path) > 4 and path[1] == "api":
        path = path[:4] + path[5:]
    elif len(path) > 5 and path[1] == "apis":
        path = path[:5] + path[6:]
    return "/".join(path)
