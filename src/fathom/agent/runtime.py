"""The `Runtime` interface: what runs containers, as deciding code sees it. Live, its values are JSON.

A `ContainerRun` is one run of a container; `Runtime.start` begins the next one. Its `id` holds pid and start
time of its processes, so a restarted agent never mistakes another process for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from fathom.model.objects import Obj


class Exit(msgspec.Struct, frozen=True, omit_defaults=True):
    code: int
    finished_ns: int
    signal: int = 0
    reason: str = ""  # '' is Completed or Error, by the code.
    message: str = ""


class ContainerRun(msgspec.Struct, frozen=True, omit_defaults=True):
    uid: str  # The pod's.
    container: str
    attempt: int  # 0 is the first: what Kubernetes calls the restart count.
    id: str
    started_ns: int
    crashes: int = 0  # In a row, before this run: sets the backoff of the next start.
    exit: Exit | None = None
    note: str = ""  # A note for users about how it runs.
    image: str = ""  # The image it was started from; '' if not recorded.


class KeptContainer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pod as the runtime holds it."""

    pod: Obj  # As it was admitted: all that is known of an orphan.
    ip: str
    runs: tuple[ContainerRun, ...] = ()  # Per container the newest and the one before.


class Launch(msgspec.Struct, frozen=True):
    """All that is needed to start a container, except what only the runtime may see: contents of Secrets."""

    pod: Obj
    container: str
    attempt: int
    crashes: int = 0


class ContainerNotStarted(msgspec.Struct, frozen=True):
    """Why not: reason and message for the pod's status."""

    reason: str
    message: str


class ProbeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    ok: bool
    message: str = ""
    note: str = ""  # A note for users although the probe passed.
    final: bool = False  # No later probe of this run differs: a script says so, never a program.


class Runtime(Protocol):
    async def listen(self, ended: Callable[[ContainerRun], None], began: Callable[[], None]) -> None:
        """Report every run that ends. `began` is called once no end can be missed any more."""
        ...

    async def listing(self) -> tuple[KeptContainer, ...]:
        """All pods that the runtime holds, orphans included."""
        ...

    async def admit(self, pod: Obj) -> KeptContainer:
        """Create a pod's directory and assign its address. Idempotent."""
        ...

    async def start(self, launch: Launch) -> ContainerRun | ContainerNotStarted: ...

    async def signal(self, run: ContainerRun, *, kill: bool) -> None:
        """Send SIGTERM, or SIGKILL to all processes of the run. A run that has ended is ignored."""
        ...

    async def probe(self, run: ContainerRun, pod: Obj, probe: Obj, *, ip: str) -> ProbeResult:
        """Try a probe once, or run a hook, which has the same form."""
        ...

    async def remove(self, uid: str) -> None:
        """Remove a pod of which nothing runs: its files and its address."""
        ...
