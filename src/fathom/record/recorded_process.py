"""Runs and records a deciding process, one incarnation after another.

    begin ──> live ──"stop", or all its tasks have ended──> over
      ^         └──the tape wants a keyframe──> "rebase": the process finishes its current work, or its
      └────────────────────────────────────────  time is up ──> its asks are dropped, its estate passed on

A new incarnation is a soft restart: to the code it is like a crash, only cleaner. The process gets a signal
first, and may drain its workers without releasing its lease; then a new Domain begins with the state that the
old one left (`Inside.estate`) and with its identity (`Birth.predecessor`: the host saw it stop, so its lease
need not expire first). Writes that were cut off are unknown outcomes; stable identities make them safe.

The identity is also kept in a file beside the tape, or beside the journal of a process without a tape. A
process that was killed and is started again reads it: only one process can hold the lock of that directory,
so the one before it has ended, and its lease need not expire.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fathom import __version__, private_files
from fathom.metrics.registry import NOT_MEASURED
from fathom.metrics.registry import Part as MetricsPart
from fathom.model.decision import Journal, NoJournal
from fathom.record.tape import DiskTape
from fathom.seams.domain import Domain
from fathom.seams.host import Host, NoTape, Redact
from fathom.seams.log import Log, NoLog
from fathom.seams.outside import Outside
from fathom.seams.process import Birth, Inside, load_entry
from fathom.seams.seam import Backend, Input, Seam

# How often the tape's size and the process's tasks are checked.
LOOK_S = 0.1
# How long a process may take to finish its current work. Longer than any request that will be answered.
GRACE_S = 15.0
# A restart costs relists: no more often than this, however fast the tape fills.
AGE_S_MIN = 60.0
# A tape that could not be written (a full disk) is tried again with the next incarnation, after this time.
AGE_S_UNRECORDED = 600.0

STOP, REBASE = "stop", "rebase"


class RecordedConnection(Backend, Protocol):
    async def close(self) -> None: ...


Connect = Callable[[Host], RecordedConnection]


class _PassedOn(msgspec.Struct, frozen=True):
    """The state that one incarnation passes on to the next."""

    identity: str = ""
    estate: bytes = b""


class RecordedProcess:
    """`run` returns after `stop`. Without a tape nothing is recorded, and there is only one incarnation.

    `held`: a directory that no other process can hold meanwhile, such as its journal's."""

    def __init__(
        self,
        entry: str,
        options: dict[str, Any],
        *,
        connect: Connect,
        outside: Outside,
        tape: DiskTape | None = None,
        held: Path | None = None,
        about: dict[str, Any] | None = None,
        journal: Journal | None = None,
        log: Log | None = None,
        redact: Redact | None = None,
        metrics: MetricsPart = NOT_MEASURED,
        grace_s: float = GRACE_S,
        age_s_min: float = AGE_S_MIN,
    ) -> None:
        self.incarnation = 0
        self._entry_name, self._entry = entry, load_entry(entry)
        self._options = options
        self._connect = connect
        self._outside = outside
        self._tape = tape
        self._held = held if tape is None else tape.directory
        self._about = {"host": platform.node(), "pid": os.getpid(), **(about or {})}
        self._journal = journal or NoJournal()
        self._log = log or NoLog()
        self._redact = redact
        self._metrics = metrics
        self._grace_s = grace_s
        self._age_s_min = age_s_min
        self._seed = f"{outside.rng.getrandbits(128):032x}"
        self._host: Host | None = None
        self._stopping = False

    def stop(self) -> None:
        """Ask the process to end; `run` returns when it has, or when its time is up."""
        self._stopping = True
        self.signal(STOP)

    def signal(self, word: str) -> None:
        if self._host is not None:
            self._host.post(Input.SIGNAL, 0, 0, word.encode())

    async def run(self) -> None:
        """Raises the error after which the process could not continue."""
        passed_on: _PassedOn | None = _PassedOn(self._identity_kept())
        while passed_on is not None and not self._stopping:
            passed_on = await self._run_incarnation(passed_on)

    async def _run_incarnation(self, passed_on: _PassedOn) -> _PassedOn | None:
        """Run one incarnation. Returns the state for the next, None if none is to follow."""
        self.incarnation += 1
        domain = Domain()
        tape = self._tape or NoTape()
        host = self._host = Host(domain, self._outside.clock, tape, log=self._log, redact=self._redact)
        connection = self._connect(host)
        seam = Seam(domain, connection)
        description = msgspec.json.encode(self._birth(passed_on))
        # Decoded as in a replay: what the tape cannot hold (a tuple, an integer key), the process never sees.
        birth = msgspec.json.decode(description, type=Birth)
        inside = Inside(birth, domain, seam, log=self._log, journal=self._journal, metrics=self._metrics)
        host.start(seam, lambda: self._entry(inside), description)
        try:
            again = await self._until_over(host, domain, inside)
        finally:
            host.stop()
            seam.cut()
            domain.bury()
            await connection.close()
        return _PassedOn(inside.identity, inside.estate) if again else None

    def _birth(self, passed_on: _PassedOn) -> Birth:
        return Birth(
            entry=self._entry_name,
            seed=self._seed,
            epoch_ns=self._outside.clock.now_ns(),
            incarnation=self.incarnation,
            predecessor=passed_on.identity,
            options=self._options,
            estate=passed_on.estate,
            fathom=__version__,
            python=f"{sys.version_info.major}.{sys.version_info.minor}",
            about=self._about,
        )

    async def _until_over(self, host: Host, domain: Domain, inside: Inside) -> bool:
        """Whether the incarnation ended for a restart."""
        restarting, deadline_ns, identity = False, 0, ""
        while not await _is_done(host):
            if inside.identity != identity:
                identity = inside.identity
                self._keep_identity(identity)
            if domain.inputs and not domain.tasks:
                return restarting
            if not restarting and not self._stopping and self._wants_keyframe(domain):
                restarting = True
                host.post(Input.SIGNAL, 0, 0, REBASE.encode())
            now_ns = self._outside.clock.monotonic_ns()
            if restarting or self._stopping:
                deadline_ns = deadline_ns or now_ns + round(self._grace_s * 1e9)
                if now_ns >= deadline_ns:
                    self._log.warn(
                        "the process did not stop in time and was ended",
                        tasks=len(domain.tasks),
                        anew=restarting,
                    )
                    return restarting
        return False

    @property
    def _identity_file(self) -> Path | None:
        return None if self._held is None else self._held / "identity"

    def _identity_kept(self) -> str:
        if self._identity_file is None:
            return ""
        try:
            return self._identity_file.read_text()
        except (OSError, ValueError):
            return ""

    def _keep_identity(self, identity: str) -> None:
        """A full disk costs the next process a wait, no more."""
        if self._identity_file is not None:
            with contextlib.suppress(OSError):
                private_files.write(self._identity_file, identity.encode())

    def _wants_keyframe(self, domain: Domain) -> bool:
        tape, age_s = self._tape, domain.now_ns / 1e9
        if tape is None or age_s < (self._age_s_min if tape.recording else AGE_S_UNRECORDED):
            return False
        if tape.recording and not tape.run_has_had_its_share:
            return False
        self._log.info(
            "restarting the process to begin a new recording",
            run=tape.run,
            run_bytes=tape.run_bytes,
            age_s=round(age_s),
        )
        return True


class EndedByItself(Exception):
    """A bug: deciding code must not end without a signal to stop."""


async def fly(flight: RecordedProcess, stop: asyncio.Event, *, component: str) -> None:
    """Run on the host's loop until `stop` is set and the current work is done. Raises the error after which
    the process could not continue."""
    running = asyncio.create_task(flight.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        was_asked_to_stop = stop.is_set()
        flight.stop()
        await running
        if not was_asked_to_stop:
            raise EndedByItself(f"{component} ended without a signal to stop: see the log for the cause")
    finally:
        stopping.cancel()
        running.cancel()


async def _is_done(host: Host) -> bool:
    """Whether the host is done, after waiting for at most LOOK_S."""
    await asyncio.wait([host.done], timeout=LOOK_S)
    if host.done.done():
        host.done.result()
    return host.done.done()
