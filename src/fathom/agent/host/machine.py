"""Facts, capacity and permitted protections of this machine, tested once when agents start."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fathom.agent.addresses import candidates
from fathom.agent.confine import LANDLOCK_CREATE, LANDLOCK_SIGNALS
from fathom.agent.host.ids import IDS_FROM, IDS_TO, HostIds
from fathom.agent.host.launch import Rights
from fathom.agent.host.orphan_processes import shims_below
from fathom.agent.host.records import boot_id
from fathom.agent.host.sockets import family, listening, sockets_of

ENCLOSE, CONFINE = (Path(__file__).parent.parent / name for name in ("mount_namespace.py", "confine.py"))
RANGE = re.compile(r"127\.\d{1,3}\.\d{1,3}")
TRY_S = 10.0
UID_MAP = Path("/proc/self/uid_map")
UNIX_SOCKETS = Path("/proc/net/unix")
CLAIM = "fathom-pods-"  # In the kernel's abstract socket namespace, before a range of addresses.


class AlreadyRuns(Exception):
    """Another agent runs for this node, or uses its addresses."""


class Range(msgspec.Struct, frozen=True):
    pod_range: str
    lock: socket.socket


def facts() -> dict[str, str]:
    machine = Path("/etc/machine-id")
    return {
        "machine": machine.read_text().strip() if machine.is_file() else "",
        "boot": boot_id(),
        "kernel": platform.release(),
        "os": _os_name(),
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def capacity(shares: int, directory: Path) -> dict[str, str]:
    """The capacity of one of so many nodes on this machine: each gets its share, so that nothing is promised
    twice."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    cpus = len(os.sched_getaffinity(0))
    disk = shutil.disk_usage(directory).total
    return {
        "cpu": f"{cpus * 1000 // shares}m",
        "memory": f"{pages * page // shares // 1024}Ki",
        "pods": "110",
        "ephemeral-storage": f"{disk // shares // 1024}Ki",
    }


def find_rights(
    hide: Sequence[Path], *, allow_root: bool, host_ids: HostIds | None = None
) -> tuple[Rights, str]:
    """The agent's rights, and a warning for the operator; '' is none."""
    root = os.geteuid() == 0
    enclosing, why = _can_enclose(root)
    paths = tuple(str(path.resolve()) for path in hide)
    places = _places(paths) if root and not enclosing else ""
    allowed = host_ids or HostIds()
    if allow_root:
        allowed = HostIds(allowed.uids | {0}, allowed.gids | {0})
    hidden = (*paths, places) if places else paths  # As the source of a host path.
    rights = Rights(root, enclosing, hidden, places, allowed, root and _has_user_namespaces())
    if root and not has_pod_ids(UID_MAP.read_text()):
        return (
            rights,
            f"pods will not start: the agent's user namespace has no user ids from {IDS_FROM} on for them",
        )
    if places and any(os.stat(path).st_mode & 0o007 for path in paths if os.path.exists(path)):
        return rights, f"pods can read those of the server's files that all users can read: {why}"
    if places or (enclosing and (root or _landlock_version())):
        notes = ("",) if root else (_groups_note(), signals_note(_landlock_version()))
        return rights, "; ".join(filter(None, notes))
    if root:
        return rights, f"pods will not start: no directory for their files can be made: {why}"
    why = why or "the kernel has no Landlock, so /proc shows pods the files of the user's other processes"
    return rights, f"pods can read those of the server's files that user {os.geteuid()} can read: {why}"


def pods_can_start(rights: Rights, *, uid_map: str) -> bool:
    """Root runs pods as users of their own, with files that other pods do not see: it starts none without."""
    return not rights.root or (has_pod_ids(uid_map) and (rights.enclosing or bool(rights.places)))


def has_pod_ids(uid_map: str) -> bool:
    """Whether the agent's user namespace has all ids that pods get."""
    ranges = [[int(word) for word in line.split()] for line in uid_map.splitlines()]
    return any(inside <= IDS_FROM and inside + count >= IDS_TO for inside, _, count in ranges)


def _groups_note() -> str:
    """A warning: without root, pods keep all groups of the agent's user."""
    groups = sorted(set(os.getgroups()) - {os.getgid()})
    return f"pods run with all groups of the agent's user: {groups}" if groups else ""


def _places(hide: Sequence[str]) -> str:
    """A directory that every user may traverse, for pods' files: with users of their own, pods cannot read
    what only root may. '' if none can be made."""
    name = hashlib.sha256("\n".join(hide).encode()).hexdigest()[:16]
    place = Path("/var", "tmp", f"fathom-pods-{name}")
    try:
        place.mkdir(mode=0o711, exist_ok=True)
        status = os.lstat(place)
    except OSError:
        return ""
    if status.st_uid != 0 or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
        return ""  # Another user has made it.
    place.chmod(0o711)
    return str(place)


def _has_user_namespaces() -> bool:
    """Tested in a process of its own."""
    try:
        command = [sys.executable, "-I", "-S", str(CONFINE)]
        return subprocess.run(command, capture_output=True, timeout=TRY_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _landlock_version() -> int:
    """0: the kernel has none."""
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(LANDLOCK_CREATE, None, 0, 1)))


def signals_note(landlock_version: int) -> str:
    """A warning: without root, pods have the agent's user, and only Landlock keeps their signals in."""
    if landlock_version >= LANDLOCK_SIGNALS:
        return ""
    return "pods can signal other processes of the agent's user: that needs Landlock 6 (Linux 6.12)"


def _can_enclose(root: bool) -> tuple[bool, str]:
    """Whether mount namespaces work here, tested in a process of its own; and why not."""
    with tempfile.TemporaryDirectory(prefix="fathom-") as place:
        stage, home = Path(place, "root"), Path(place, "home")
        stage.mkdir()
        home.mkdir()
        command = [
            sys.executable,
            "-I",
            "-S",
            str(ENCLOSE),
            str(stage),
            str(home),
            *(() if root else ("users",)),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TRY_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return False, str(error)
    return done.returncode == 0, done.stderr.strip()


def lock_node(directory: Path, node: str) -> int:
    """One agent per data directory and node; the lock ends with the process."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise AlreadyRuns(f"an agent for node {node} is already running on {directory}") from None
    return fd


def claim_range(directory: Path, node: str) -> Range:
    """Claim addresses for the node's pods: those it had before, or a range that no other agent of this
    machine has. The claim is a name in the kernel's abstract socket namespace: it ends with the process."""
    file = directory / "range"
    before = file.read_text(errors="replace").strip() if file.is_file() else ""
    if RANGE.fullmatch(before):  # Else the file is damaged. Pods keep the addresses that they have.
        lock = _claimed(before)
        if lock is None and _is_pods(before, directory):
            lock = socket.socket(
                socket.AF_UNIX
            )  # Not bound: the pod itself keeps other agents off the range.
        if lock is None:
            raise AlreadyRuns(f"the addresses {before}.0/24 of node {node} are in use by another agent")
        return Range(before, lock)
    used = listening()
    for candidate in candidates(f"{node} {directory}"):
        if any(address.startswith(f"{candidate}.") for address in used):
            continue  # Pods of an agent that is not running now.
        lock = _claimed(candidate)
        if lock is not None:
            file.write_text(candidate)
            return Range(candidate, lock)
    raise AlreadyRuns("every range of pod addresses on this machine is taken")


def _claimed(pod_range: str) -> socket.socket | None:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0{CLAIM}{pod_range}")
    except OSError:
        lock.close()
        return None
    return lock


def _is_pods(pod_range: str, directory: Path) -> bool:
    """Whether a pod of this very node has taken the name while its agent was away: every process of the
    machine may take any name. No pod may keep its agent from coming back by that."""
    rows = (line.split() for line in UNIX_SOCKETS.read_text(errors="replace").splitlines())
    inodes = {int(row[6]) for row in rows if len(row) == 8 and row[7] == f"@{CLAIM}{pod_range}"}
    pods = (pid for shim, _ in shims_below(directory / "pods") for pid in family(shim))
    return bool(inodes & sockets_of(pods))
