"""Records of a node's pods on disk, from which a restarted agent recovers everything.

DIR/pods/UID/pod.json                    the pod as it was admitted, its address and its ids
DIR/pods/UID/home/CONTAINER              its working directory
DIR/pods/UID/volumes/NAME
DIR/pods/UID/runs/CONTAINER/ATTEMPT/     run.json, exit.json (by the shim), log, log.1, …, stopped-by-down
DIR/removed/                             pods that are gone, while their files are being removed
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec

from fathom import private_files
from fathom.agent.runtime import ContainerRun, Exit, KeptContainer
from fathom.agent.safe_files import remove_path
from fathom.model.objects import Obj, uid_of
from fathom.model.reasons import CLUSTER_STOPPED

BOOT = Path("/proc/sys/kernel/random/boot_id")
SCHEME = "process://"
# Any other error does not prove that it is missing, and is raised.
NOT_THERE = (FileNotFoundError, NotADirectoryError)
STOPPED = "stopped-by-down"  # In the directory of a run that `fathom down` has ended.
LOCK = "lock"
RUNS_KEPT = 2  # The newest, and the one before for `logs --previous`.


class PodRecord(msgspec.Struct, frozen=True):
    pod: Obj
    ip: str
    ids: int = 0  # The first of the pod's own users and groups; 0: it has none.


class RunRecord(msgspec.Struct, frozen=True):
    """`run.json`: the processes of a run."""

    uid: str
    container: str
    attempt: int
    crashes: int
    boot: str
    pid: int
    pid_started: int
    shim: int
    shim_started: int
    started_ns: int
    image: str = ""
    mounts: int = 0  # Its mount namespace, if it has one of its own.

    @property
    def run(self) -> ContainerRun:
        return ContainerRun(
            self.uid, self.container, self.attempt, self.id, self.started_ns, self.crashes, image=self.image
        )

    @property
    def id(self) -> str:
        return f"{SCHEME}{self.uid}/{self.container}/{self.attempt}/{self.pid}-{self.pid_started}"


class ExitRecord(msgspec.Struct, frozen=True):
    """`exit.json`: how it ended."""

    code: int
    finished_ns: int
    started_ns: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""

    @property
    def exit(self) -> Exit:
        return Exit(self.code, self.finished_ns, self.signal, self.reason, self.message)


def boot_id() -> str:
    with contextlib.suppress(OSError):
        return BOOT.read_text().strip()
    return ""


def is_alive(pid: int, started: int) -> bool:
    """Whether that very process is alive: a pid is reused, a pid with its start time is not. Raises OSError
    if that cannot be determined: a process that cannot be read (no more files can be opened) may well be
    alive."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[19]) == started and fields[0] not in {b"Z", b"X"}


class Records:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._pods = directory / "pods"
        self._removed = directory / "removed"
        self._pods.mkdir(mode=0o700, parents=True, exist_ok=True)

    def pod_dir(self, uid: str) -> Path:
        return self._pods / _name(uid)

    def run_dir(self, uid: str, container: str, attempt: int) -> Path:
        return self.pod_dir(uid) / "runs" / _name(container) / str(attempt)

    def lock_file(self, uid: str, container: str) -> Path:
        """Held by the shim of the run that is alive."""
        return self.pod_dir(uid) / "runs" / _name(container) / LOCK

    def is_held(self, uid: str, container: str) -> bool:
        try:
            fd = os.open(self.lock_file(uid, container), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    # Pods.

    def keep_pod(self, pod: Obj, ip: str, ids: int = 0) -> None:
        directory = self.pod_dir(uid_of(pod))
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.write(directory / "pod.json", msgspec.json.encode(PodRecord(pod, ip, ids)))

    def pods(self) -> list[PodRecord]:
        return [record for uid in self._uids() if (record := self.pod(uid)) is not None]

    def unreadable(self) -> list[str]:
        return [uid for uid in self._uids() if self.pod(uid) is None]

    def _uids(self) -> list[str]:
        """Empty if the directory was removed: it is created again for the next pod."""
        try:
            return sorted(path.name for path in self._pods.iterdir())
        except FileNotFoundError:
            return []

    def pod(self, uid: str) -> PodRecord | None:
        try:
            return msgspec.json.decode((self.pod_dir(uid) / "pod.json").read_bytes(), type=PodRecord)
        except (*NOT_THERE, msgspec.MsgspecError):
            return None

    def kept(self, record: PodRecord) -> KeptContainer:
        uid = uid_of(record.pod)
        return KeptContainer(record.pod, record.ip, tuple(self.runs(uid)))

    def take_away(self, uid: str) -> Path | None:
        """Rename the pod's directory, so that no reader finds half a pod while it is removed; the new
        path."""
        self._removed.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = self._removed / f"{_name(uid)}-{os.urandom(8).hex()}"
        try:
            return self.pod_dir(uid).rename(target)
        except FileNotFoundError:
            return None

    def taken_away(self) -> list[Path]:
        """Directories that an earlier agent could not remove."""
        return sorted(self._removed.iterdir()) if self._removed.is_dir() else []

    # Runs.

    def runs(self, uid: str) -> list[ContainerRun]:
        runs = self.pod_dir(uid) / "runs"
        names = sorted(path.name for path in runs.iterdir()) if runs.is_dir() else []
        return [run for name in names for at in self.attempts(uid, name) if (run := self.run(uid, name, at))]

    def attempts(self, uid: str, container: str) -> list[int]:
        directory = self.pod_dir(uid) / "runs" / _name(container)
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit())

    def run(self, uid: str, container: str, attempt: int) -> ContainerRun | None:
        """The run, with its exit if it has ended. None: it never started."""
        record = self.run_record(uid, container, attempt)
        if record is None:
            return None
        ended = self.exit_record(uid, container, attempt)
        return msgspec.structs.replace(record.run, exit=ended.exit) if ended is not None else record.run

    def run_record(self, uid: str, container: str, attempt: int) -> RunRecord | None:
        try:
            raw = (self.run_dir(uid, container, attempt) / "run.json").read_bytes()
            return msgspec.json.decode(raw, type=RunRecord)
        except (*NOT_THERE, msgspec.MsgspecError):
            return None

    def exit_record(self, uid: str, container: str, attempt: int) -> ExitRecord | None:
        try:
            raw = (self.run_dir(uid, container, attempt) / "exit.json").read_bytes()
            record = msgspec.json.decode(raw, type=ExitRecord)
        except (*NOT_THERE, msgspec.MsgspecError):
            return None
        return self.with_cause(record, uid, container, attempt)

    def with_cause(self, record: ExitRecord, uid: str, container: str, attempt: int) -> ExitRecord:
        """A program that `fathom down` has ended did not crash, whatever its code."""
        if not record.code or not (self.run_dir(uid, container, attempt) / STOPPED).exists():
            return record
        return msgspec.structs.replace(record, reason=CLUSTER_STOPPED, message="fathom down ended it")

    def write_exit(self, run: ContainerRun, record: ExitRecord) -> None:
        """Write the exit of a run whose shim could not."""
        directory = self.run_dir(run.uid, run.container, run.attempt)
        private_files.write(directory / "exit.json", msgspec.json.encode(record))

    def forget_old_runs(self, uid: str, container: str) -> None:
        for attempt in self.attempts(uid, container)[:-RUNS_KEPT]:
            with contextlib.suppress(OSError):
                remove_path(self.run_dir(uid, container, attempt))


def _name(text: str) -> str:
    """The API server has validated names; since paths are made of them, they are checked here too."""
    if not text or text.startswith(".") or "/" in text or "\0" in text:
        raise ValueError(f"{text!r} cannot be a file's name")
    return os.fspath(text)
