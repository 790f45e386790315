"""End the processes that are left of a container whose shim was killed.

The kernel kills the container's first process then; processes that it had started survive, reparented, and
would hold the ports that the next run needs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fathom.agent.host.records import RunRecord, is_alive
from fathom.agent.host.sockets import family, parent_of

SHIM = Path(__file__).parent.parent / "shim.py"
# Of any install: pods outlive an upgrade into another virtual environment.
ANY_SHIM = "/fathom/agent/shim.py"
ROUNDS, PAUSE_S = 50, 0.01  # They may fork while they are being killed.


def end_orphans(record: RunRecord) -> None:
    _end(lambda: orphans_of(record))


def end_below(directory: Path) -> bool:
    """End all runs whose files are below the directory, for records that cannot be read. Were there any?"""
    return _end(lambda: [pid for shim, _ in shims_below(directory) for pid in (*family(shim), shim)])


def _end(find_pids: Callable[[], Iterable[int]]) -> bool:
    """Kill until none is left, unless the kernel itself holds one of them."""
    for number in range(ROUNDS):
        pids = list(find_pids())
        if not pids:
            return number > 0
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)
    return True


def shims_below(directory: Path) -> Iterator[tuple[int, Path]]:
    """Pids of shims, and the directory of each one's run, taken from the spec file in its command line."""
    stem, owner = f"{directory}/", _owner_of(directory)
    for name in os.listdir("/proc"):
        arguments = _shim_arguments(int(name), owner) if name.isdigit() else []
        yield from ((int(name), Path(argument).parent) for argument in arguments if argument.startswith(stem))


def _shim_arguments(pid: int, owner: int) -> list[str]:
    """The command line of a shim that this user has started; [] if the process is none.

    1. A pod's program calls itself a shim of another pod, whose files are gone. 2. We would end that other
    pod. A program chooses its command line, but not its user: with root, a pod has other users than the
    agent; without root, it is in a user namespace of its own."""
    try:
        arguments = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")
        if not any(argument.endswith(ANY_SHIM) for argument in arguments):
            return []
        is_outside = os.stat(f"/proc/{pid}").st_uid == owner and _users_of(pid) == _users_of("self")
        return arguments if is_outside else []
    except OSError:
        return []  # It ended meanwhile, or we may not look at it.


def _users_of(pid: int | str) -> int:
    return os.stat(f"/proc/{pid}/ns/user").st_ino


def _owner_of(directory: Path) -> int:
    """The user of the agents whose files are there. The directory itself may be gone."""
    for place in (directory, *directory.parents):
        with contextlib.suppress(OSError):
            return os.stat(place).st_uid
    return os.geteuid()


def orphans_of(record: RunRecord) -> Iterator[int]:
    if is_alive(record.pid, record.pid_started):
        yield record.pid
    for name in os.listdir("/proc"):
        if name.isdigit() and _belongs(int(name), record) and not _has_shim(int(name)):
            yield int(name)


def _belongs(pid: int, record: RunRecord) -> bool:
    """Numbers of sessions and namespaces are reused by any process: the proof that it was this pod's is the
    pod's directory among its mounts, or the pod's UID in its environment."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in {b"Z", b"X"} or int(fields[19]) < record.pid_started:
            return False
        if record.mounts:
            home = f"/{record.uid}/home/{record.container} ".encode()
            same = os.stat(f"/proc/{pid}/ns/mnt").st_ino == record.mounts
            return same and home in Path(f"/proc/{pid}/mountinfo").read_bytes()
        same = int(fields[3]) == record.pid
        return same and record.uid.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except (OSError, IndexError):
        return False  # It ended meanwhile, or we may not look at it.


def _has_shim(pid: int | None) -> bool:
    while pid is not None and pid > 1:
        if _shim_arguments(pid, os.geteuid()):
            return True
        pid = parent_of(pid)
    return False
