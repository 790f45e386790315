"""A deciding process: what it begins with, and how each kind of input reaches it.

    Birth  ──entry(inside)──>  tasks on a Domain  <──take(input)──  whoever drives: host, replay

With the inputs that follow, a Birth determines all that the process does: it is its tape's first record.
An entry is a function that takes an `Inside` and creates the process's tasks, named by an id of
`recorded_code` or, of a user's own, `module:name`. It keeps nothing in modules, because a process may begin
anew in the same interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
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
    predecessor: str = ""  # The identity that the last incarnation had, if the host saw it stop.
    options: dict[
        str, Any
    ] = {}  # Controllers and their options, workers, feature flags: all that deciders see.
    estate: bytes = b""  # What the last incarnation left to this one.
    # Not for deciders: what else a reader must know to understand or repeat the run.
    fathom: str = ""
    python: str = ""
    about: dict[str, Any] = {}  # Host, pid, admission configuration, feature flags of the server.

    @property
    def code(self) -> tuple[str, ...]:
        """What a replay loads: the entry, and the controllers that it is told to run. Raises NoEntry."""
        named = self.options.get("controllers", ())
        if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
            raise NoEntry("its controllers are not a list of names")
        return (self.entry, *named)


class Inside:
    """What an entry is given: everything it may touch. `log`, `journal` and `metrics` only take."""

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
        self.estate = b""  # Left to the next incarnation; read once the process has ended.
        self.identity = ""  # Under which it held leases; told to the next incarnation.


Entry = Callable[[Inside], object]


class DomainClock:
    """Time as deciding code sees it: it stands still while an input is being worked on."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def now_ns(self) -> int:
        return self._domain.epoch_ns + self._domain.now_ns

    def monotonic_ns(self) -> int:
        return self._domain.now_ns


# Inputs that no ask has caused, nor a signal.
_OF_ITSELF = frozenset({Input.TICK, Input.START, Input.COLLECT, Input.CLOCK})


class Process:
    """The one way of inputs into a Domain. Live and replayed alike go through here, so they cannot differ."""

    def __init__(self, domain: Domain, seam: Seam, begin: Callable[[], object]) -> None:
        self.domain = domain
        self.seam = seam
        self._begin = begin

    def take(self, kind: Input, number: int, now_ns: int, status: int, payload: bytes) -> None:
        self.domain.input(now_ns, *self.way_of(kind, number, status, payload))

    def way_of(self, kind: Input, number: int, status: int, payload: Any) -> tuple[Any, ...]:
        """What is called with what inside the Domain; nothing where time alone has passed."""
        if kind not in _OF_ITSELF:
            return (self.seam.deliver, kind, number, status, payload)
        if kind is Input.TICK:
            return ()
        if kind is Input.START:
            return (self._begin,)
        if kind is Input.COLLECT:
            return (self.domain.collect, status)
        return (self._set_clock, payload)

    def _set_clock(self, payload: bytes) -> None:
        self.domain.epoch_ns = int.from_bytes(payload, "little", signed=True)


def clock_payload(epoch_ns: int) -> bytes:
    return epoch_ns.to_bytes(8, "little", signed=True)


class NoEntry(Exception):
    """There is no such process; the message says what is missing."""


def load_entry(name: str) -> Entry:
    module, _, function = location_of(name).partition(":")
    if not module or not function:
        raise NoEntry(f"{name!r} names no process: it must be the id of one of ours, or read module:function")
    try:
        entry = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        raise NoEntry(f"{name} cannot be loaded: {error}") from error
    except AttributeError as error:
        raise NoEntry(f"{module} has no {function}") from error
    if not callable(entry):
        raise NoEntry(f"{name} is no function")
    return entry  # type: ignore[no-any-return]  # checked as far as it can be
