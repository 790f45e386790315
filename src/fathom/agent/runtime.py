"""What runs containers, as deciding code sees it. Values only: live they travel through the seam as JSON.

A `ContainerRun` is one run of a container; `Runtime.start` begins the next one. Its `id` holds pid and start
time of its processes, so an agent that restarts never takes another process for it.
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
    uid: str  # Of the pod.
    container: str
    attempt: int  # 0 is the first: what Kubernetes calls the restart count.
    id: str
    started_ns: int
    crashes: int = 0  # In a row, before this one: how long the next start has to wait.
    exit: Exit | None = None
    note: str = ""  # What people should know of how it runs.
    image: str = ""  # That it was started from; '' where nobody wrote it down.


class KeptContainer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a runtime holds of one pod."""

    pod: Obj  # As it was admitted: whoever must end an orphan has only this.
    ip: str
    runs: tuple[ContainerRun, ...] = ()  # Of each container the newest, and the one before.


class Launch(msgspec.Struct, frozen=True):
    """All that is needed to start a container, but what only the runtime may see: the contents of Secrets."""

    pod: Obj
    container: str
    attempt: int
    crashes: int = 0


class ContainerNotStarted(msgspec.Struct, frozen=True):
    """Why not, in the words that a pod's status has for it."""

    reason: str
    message: str


class ProbeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    ok: bool
    message: str = ""
    note: str = ""  # Something that people should know although the probe passed.


class Runtime(Protocol):
    async def listen(self, ended: Callable[[ContainerRun], None], began: Callable[[], None]) -> None:
        """Tell of every run that ends. `began` is called once nothing can be missed any more."""
        ...

    async def listing(self) -> tuple[KeptContainer, ...]:
        """Everything that is held, also of pods that nobody knows any more."""
        ...

    async def admit(self, pod: Obj) -> KeptContainer:
        """Make room for a pod and give it its address. Doing it again gives the same."""
        ...

    async def start(self, launch: Launch) -> ContainerRun | ContainerNotStarted: ...

    async def signal(self, run: ContainerRun, *, kill: bool) -> None:
        """SIGTERM, or SIGKILL to all of it. A run that is over is left alone."""
        ...

    async def probe(self, run: ContainerRun, pod: Obj, probe: Obj, *, ip: str) -> ProbeResult:
        """One try of a probe, or of a hook, which is written the same."""
        ...

    async def remove(self, uid: str) -> None:
        """Nothing of it runs: forget it, its files and its address."""
        ...
