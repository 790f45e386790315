"""`fathom down`: end a cluster of this machine, its pods too."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.data_directory import checked
from fathom.cli.places import Data, existing_data
from fathom.cli.problem import Problem
from fathom.terminal import say

STOP_S = 60.0  # More than a supervisor takes to stop all its parts.
POLL_S = 0.1
LOCK = "up.lock"


def down(
    *,
    data: Data = None,
    grace: Annotated[
        str, Parameter(help="How long the programs of pods may take to end, before they are killed.")
    ] = "5s",
    keep_pods: Annotated[
        bool,
        Parameter(negative=(), help="Only the control plane: the next `fathom up` adopts the pods."),
    ] = False,
) -> int:
    """End the cluster of a data directory: the control plane, and the programs of its pods. What is stored
    stays: the next `fathom up` starts the same pods again.

    Prints what was stopped, and which pods were ended.

    fathom down
    fathom down --data ./other --keep-pods
    """
    from fathom.agent.host.living_pods import end_pods, living_pods  # noqa: PLC0415  # See the package's docstring.
    from fathom.cli.object_reference import duration_s  # noqa: PLC0415

    grace_s = duration_s(grace, "--grace")
    data = checked(existing_data(data)).absolute()
    stopped = _stop_supervisor(data)
    say(f"stopped the control plane in {data}" if stopped else f"no control plane runs in {data}")
    pods = living_pods(data)
    if keep_pods:
        say(f"{len(pods)} pods run on" if pods else "no pods run")
        return 0
    end_pods(data, grace_s=grace_s)
    left = living_pods(data)
    if left:
        listed = ", ".join(pod.name for pod in left)
        raise Problem(f"these pods could not be ended: {listed}; they may belong to another user")
    say(f"ended {len(pods)} pods: {', '.join(pod.name for pod in pods)}" if pods else "no pods ran")
    return 0


def _stop_supervisor(data: Path) -> bool:
    """Whether one was running. Raises Problem."""
    try:
        lock = os.open(data / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if _is_free(lock):
            return False
        signalled: set[int] = set()
        until_s = time.monotonic() + STOP_S
        while not _is_free(lock):
            for pid in set(holders_of(data)) - signalled:
                signalled.add(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            if time.monotonic() > until_s:
                listed = ", ".join(map(str, holders_of(data))) or "unknown"
                raise Problem(f"{data} is still in use after {STOP_S:g} s by processes {listed}: kill them")
            time.sleep(POLL_S)
    finally:
        os.close(lock)
    return True


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True


def holders_of(data: Path) -> list[int]:
    """The supervisor, if it runs; else parts that it left behind. Parts end with their supervisor, in
    order."""
    from fathom.supervise import lock_holders  # noqa: PLC0415

    pids = lock_holders(data)
    parents = {pid: _parent(pid) for pid in pids}
    return [pid for pid in pids if parents[pid] not in pids]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0
