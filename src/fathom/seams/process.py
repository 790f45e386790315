"""A deciding process: what it begins with, and how each kind of input reaches it.

    Birth  ──entry(inside)──>  tasks on a Domain  <──take(input)──  the driver: host, replay

A `Birth` and the inputs after it determine all that the process does: it is the tape's first record.
An entry is a function that takes an `Inside` and creates the process's tasks. Its name is an id of
`recorded_code` or, for a user's own code, `module:name`. It keeps no state in modules, because a process may
restart in the same interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import Any

import msgspec

from fathom.metrics.registry import NOT_MEASURED
from fathom.metrics.registry import Part as MetricsPart
from fathom.model.decision import Journal, NoJournal
from fathom.seams.domain import Domain
from fathom.seams.log import Log, NoLog
from fathom.seams.outside import Outside, RandomIds
from fathom.seams.recorded_code import location_of
from fathom.seams.seam import Input, Seam
from fathom.seams.streams import Streams


class Birth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What deciders see of the world before their first input, and what a reader of the tape must know."""

    entry: str  # An id of `recorded_code`, or a user's own 'module:function'.
    seed: str
    epoch_ns: int  # The wall clock at the Domain's time 0.
    incarnation: int = 1
    predecessor: str = ""  # The identity of the previous incarnation, if the host saw it stop.
    options: dict[
        str, Any
    ] = {}  # Controllers and their options, workers, feature flags: all that deciders see.
    estate: bytes = b""  # State passed on by the previous incarnation.
    # Not for deciders: what else a reader must know to understand or repeat the run.
    fathom: str = ""
    python: str = ""
    about: dict[str, Any] = {}  # Host, pid, admission configuration, feature flags of the server.

    @property
    def code(self) -> tuple[str, ...]:
        """The code that a replay loads: the entry, and the controllers in its options. Raises NoEntry."""
        named = self.options.get("controllers", ())
        if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
            raise NoEntry("the recorded controllers are not a list of names")
        return (self.entry, *named)


class Inside:
    """The argument of an entry: everything it may use. `log`, `journal` and `metrics` are write-only."""

    def __init__(
        self,
        birth: Birth,
        domain: Domain,
        seam: Seam,
        *,
        log: Log | None = None,
        journal: Journal | None = None,
        metrics: MetricsPart = NOT_MEASURED,
    ) -> None:
        domain.epoch_ns = birth.epoch_ns
        self.birth = birth
        self.incarnation = birth.incarnation
        self.options = birth.options
        self.domain = domain
        self.seam = seam
        self.streams = Streams(f"{birth.seed}/{birth.incarnation}")
        self.outside = Outside(
            clock=DomainClock(domain),
            ids=RandomIds(self.streams.stream("ids")),
            rng=self.streams.stream("process"),
        )
        self.log: Log = log or NoLog()
        self.journal: Journal = journal or NoJournal()
        self.metrics = metrics
        self.estate = b""  # State for the next incarnation; read once the process has ended.
        self.identity = ""  # The holder in its leases; passed on to the next incarnation.


Entry = Callable[[Inside], object]


class DomainClock:
    """Time as deciding code sees it: it stands still while an input is being worked on."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def now_ns(self) -> int:
        return self._domain.epoch_ns + self._domain.now_ns

    def monotonic_ns(self) -> int:
        return self._domain.now_ns


# Inputs caused neither by an ask nor by a signal.
_NOT_FROM_SEAM = frozenset({Input.TICK, Input.START, Input.COLLECT, Input.CLOCK})


class Process:
    """Delivers inputs to a Domain. Live runs and replays both use it, so they cannot differ."""

    def __init__(self, domain: Domain, seam: Seam, begin: Callable[[], object]) -> None:
        self.domain = domain
        self.seam = seam
        self._begin = begin

    def take(self, kind: Input, number: int, now_ns: int, status: int, payload: bytes) -> None:
        self.domain.input(now_ns, *self.way_of(kind, number, status, payload))

    def way_of(self, kind: Input, number: int, status: int, payload: Any) -> tuple[Any, ...]:
        """The function to call inside the Domain, and its arguments; empty where only time has passed."""
        if kind not in _NOT_FROM_SEAM:
            return (self.seam.deliver, kind, number, status, payload)
        if kind is Input.TICK:
            return ()
        if kind is Input.START:
            return (self._begin,)
        if kind is Input.COLLECT:
            return (self.domain.collect, status)
        return (self._set_clock, payload)

    def _set_clock(self, payload: bytes) -> None:
        self.domain.epoch_ns = epoch_of(payload)


def clock_payload(epoch_ns: int) -> bytes:
    return epoch_ns.to_bytes(8, "little", signed=True)


def epoch_of(payload: bytes) -> int:
    """Of a CLOCK input."""
    return int.from_bytes(payload, "little", signed=True)


class TimersAtTick(msgspec.Struct, frozen=True):
    """The payload of a TICK. A replay compares it; the process does not see it."""

    deadline_ns: int  # Of the timer that was due.
    armed: int  # See `Domain.armed`.

    def encode(self) -> bytes:
        return _TIMERS.pack(self.deadline_ns, self.armed)


def timers_at_tick(domain: Domain) -> TimersAtTick:
    """Before the TICK is delivered."""
    return TimersAtTick(domain.next_deadline_ns() or 0, domain.armed)


def decode_timers(payload: bytes) -> TimersAtTick | None:
    """None for a tape of a version that did not record them."""
    return TimersAtTick(*_TIMERS.unpack(payload)) if len(payload) == _TIMERS.size else None


_TIMERS = Struct("<qQ")


class NoEntry(Exception):
    """The process's code cannot be found; the message says what is missing."""


def load_entry(name: str) -> Entry:
    module, _, function = location_of(name).partition(":")
    if not module or not function:
        raise NoEntry(f"unknown process {name!r}: give the id of a fathom process, or module:function")
    try:
        entry = getattr(import_module(module), function)
    except ImportError as error:  # The module is missing, or a name that it imports.
        raise NoEntry(f"{name} cannot be loaded: {error}") from error
    except AttributeError as error:
        raise NoEntry(f"{module} has no {function}") from error
    if not callable(entry):
        raise NoEntry(f"{name} is not a function")
    return entry  # type: ignore[no-any-return]  # checked as far as it can be
