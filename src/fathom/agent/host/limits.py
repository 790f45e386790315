"""CPU and memory limits of a container, by cgroups v2 or v1, or else by RLIMIT_DATA of each process; and how
many processes it may start.

Limits that cannot be enforced are reported once, at the start.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from fathom.model.objects import Obj, lookup
from fathom.model.quantity import parse

ROOT = Path("/sys/fs/cgroup")
KERNEL = Path("/proc/sys/kernel")
PERIOD_US = 100_000
PROCESSES_PART = 4  # A pod may have a quarter of the machine's processes and threads.


class LimitEnforcement(msgspec.Struct, frozen=True):
    """How limits are enforced here."""

    kind: str  # 'v2', 'v1' or '' for none.
    note: str = ""


class Fence(msgspec.Struct, frozen=True):
    """The limits of one run."""

    groups: tuple[str, ...] = ()  # Files into which the process writes its own pid.
    rlimits: dict[str, int] = {}
    oom: str = ""  # The file in which the kernel counts OOM kills.
    peak: str = ""  # The file with the most memory that was used.
    memory_bytes: int = 0  # The limit; 0: none.
    processes: str = ""  # The file that says how many processes the container may have.


def find_means(name: str, root: Path = ROOT) -> LimitEnforcement:
    """Tested by making and removing a group."""
    with contextlib.suppress(OSError):
        if {"cpu", "memory"} <= set((root / "cgroup.controllers").read_text().split()):
            group = root / "fathom" / name
            _try(group)
            for directory in (root, root / "fathom", group):
                _enable(directory)
            return LimitEnforcement("v2")
    with contextlib.suppress(OSError):
        for controller in ("cpu", "memory"):
            _try(root / controller / "fathom" / name)
        return LimitEnforcement("v1")
    return LimitEnforcement(
        "", "no cgroups: memory limits apply to the data of each process, CPU limits are not enforced"
    )


def _enable(group: Path) -> None:
    """Raises OSError. Not every system lets us count processes; that alone is no reason to go without."""
    (group / "cgroup.subtree_control").write_text("+cpu +memory")
    with contextlib.suppress(OSError):
        (group / "cgroup.subtree_control").write_text("+pids")


def processes_max() -> int:
    """How many processes and threads one pod may have, so that there are some for everybody else."""
    return min(int((KERNEL / name).read_text()) for name in ("pid_max", "threads-max")) // PROCESSES_PART


def _try(group: Path) -> None:
    """Raises OSError. An existing group proves nothing: another user's agent may have made it."""
    group.mkdir(parents=True, exist_ok=True)
    within = group / f"try-{os.getpid()}"
    within.mkdir(exist_ok=True)
    within.rmdir()


class ContainerLimits(msgspec.Struct, frozen=True):
    cpu_milli: int = 0  # 0: no limit; the same for memory.
    memory_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.cpu_milli or self.memory_bytes)

    @property
    def quota_us(self) -> int:
        return max(1000, self.cpu_milli * PERIOD_US // 1000)


def limits_of(spec: Obj) -> ContainerLimits:
    """Limits of a container; a pod's spec has them in the same field, for all of its containers together."""
    listed = lookup(spec, "resources", "limits") or {}
    cpu, memory = listed.get("cpu"), listed.get("memory")
    return ContainerLimits(parse(str(cpu)).milli if cpu else 0, parse(str(memory)).value if memory else 0)


def fence_in(means: LimitEnforcement, name: str, container: Obj, pod: Obj, root: Path = ROOT) -> Fence:
    """`name`: a path below the agent's own group, its last part being the container's. Raises OSError."""
    own, whole, most = limits_of(container), limits_of(pod.get("spec") or {}), processes_max()
    if means.kind == "v2":
        group = _make_group(root / "fathom" / name)
        for cgroup, limits in ((group.parent, whole), (group, own)):
            _limit_v2(cgroup, limits)
        return Fence(
            (str(group / "cgroup.procs"),),
            rlimits={"NPROC": most},
            oom=str(group / "memory.events"),
            peak=str(group / "memory.peak"),
            memory_bytes=own.memory_bytes or whole.memory_bytes,
            processes=_limit_processes(group, most),
        )
    if means.kind == "v1":
        return _fence_v1(name, own, whole, root)
    memory = own.memory_bytes or whole.memory_bytes
    return Fence(rlimits={"NPROC": most, **({"DATA": memory} if memory else {})}, memory_bytes=memory)


def _limit_processes(group: Path, most: int) -> str:
    """The file to which the shim writes 0 at the end, so that nothing can fork while it is killed; '' if the
    system does not count processes. The run before has left a 0 there."""
    try:
        for cgroup in (group.parent, group):
            (cgroup / "pids.max").write_text(str(most))
    except OSError:
        return ""
    return str(group / "pids.max")


def _limit_v2(group: Path, limits: ContainerLimits) -> None:
    if limits.cpu_milli:
        (group / "cpu.max").write_text(f"{limits.quota_us} {PERIOD_US}")
    if limits.memory_bytes:
        (group / "memory.max").write_text(str(limits.memory_bytes))


def _fence_v1(name: str, own: ContainerLimits, whole: ContainerLimits, root: Path) -> Fence:
    groups = []
    if own.cpu_milli or whole.cpu_milli:
        group = _make_group(root / "cpu" / "fathom" / name)
        for cgroup, limits in ((group.parent, whole), (group, own)):
            if limits.cpu_milli:
                (cgroup / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (cgroup / "cpu.cfs_quota_us").write_text(str(limits.quota_us))
        groups.append(str(group / "cgroup.procs"))
    if own.memory_bytes or whole.memory_bytes:
        group = _make_group(root / "memory" / "fathom" / name)
        for cgroup, limits in ((group.parent, whole), (group, own)):
            if limits.memory_bytes:
                (cgroup / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
        groups.append(str(group / "cgroup.procs"))
    memory, processes, most = root / "memory" / "fathom" / name, "", processes_max()
    if (root / "pids").is_dir():
        group = _make_group(root / "pids" / "fathom" / name)
        processes = _limit_processes(group, most)
        groups.append(str(group / "cgroup.procs"))
    return Fence(
        tuple(groups),
        rlimits={"NPROC": most},
        oom=str(memory / "memory.oom_control"),
        peak=str(memory / "memory.max_usage_in_bytes"),
        memory_bytes=own.memory_bytes or whole.memory_bytes,
        processes=processes,
    )


def _make_group(group: Path) -> Path:
    """Create the group. Cgroups v2 pass a controller on only if every group above enables it."""
    group.mkdir(parents=True, exist_ok=True)
    for above in reversed(group.parents):
        control = above / "cgroup.subtree_control"
        if control.exists() and "memory" not in control.read_text().split():
            with contextlib.suppress(OSError):
                _enable(above)
    return group


def remove_groups(name: str, root: Path = ROOT) -> None:
    """Remove empty groups, deepest first. Those still in use stay, until the machine's next boot; so do those
    that only another user may look at."""
    for base in (root, root / "cpu", root / "memory", root / "pids"):
        for directory, _, _ in os.walk(base / "fathom" / name, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
