"""Pods of a data directory that run without an agent: after `fathom up` was stopped, their programs go on."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec

from fathom.agent.host.orphan_processes import end_below, shims_below
from fathom.agent.host.records import STOPPED, PodRecord, RunRecord, is_alive
from fathom.model.objects import metadata

POLL_S = 0.05


class LivingPod(msgspec.Struct, frozen=True):
    name: str  # 'default/web-1'
    runs: tuple[Path, ...]  # Directories of its runs that are alive.


def living_pods(data: Path) -> list[LivingPod]:
    """By their shims, which name the directory of their run."""
    runs: dict[Path, list[Path]] = {}
    for _, run in shims_below(data.resolve()):
        if is_run(run, data.resolve()):
            runs.setdefault(run.parents[2], []).append(run)
    return sorted(
        (LivingPod(_name(pod_dir), tuple(sorted(of_pod))) for pod_dir, of_pod in runs.items()),
        key=lambda pod: pod.name,
    )


def is_run(directory: Path, data: Path) -> bool:
    """DATA/agents/NODE/pods/UID/runs/CONTAINER/ATTEMPT. A program chooses its own command line, and may name
    any directory there: one that pods can write would tell us to end the process of somebody else."""
    match directory.relative_to(data).parts:
        case ("agents", _, "pods", _, "runs", _, attempt) as parts:
            return attempt.isdecimal() and ".." not in parts
    return False


def _name(pod_dir: Path) -> str:
    try:
        record = msgspec.json.decode((pod_dir / "pod.json").read_bytes(), type=PodRecord)
    except (OSError, msgspec.MsgspecError):
        return pod_dir.name
    meta = metadata(record.pod)
    return f"{meta.get('namespace')}/{meta.get('name')}"


def end_pods(data: Path, *, grace_s: float) -> None:
    """Ask every program to end, and kill those that still run when the time is over."""
    for pod in living_pods(data):
        for run in pod.runs:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                record = msgspec.json.decode((run / "run.json").read_bytes(), type=RunRecord)
                if is_alive(record.pid, record.pid_started):
                    (run / STOPPED).touch(mode=0o600)  # First: the agent that comes next reads it.
                    os.killpg(record.pid, signal.SIGTERM)
    until_s = time.monotonic() + grace_s
    while living_pods(data) and time.monotonic() < until_s:
        time.sleep(POLL_S)
    end_below(data.resolve())
