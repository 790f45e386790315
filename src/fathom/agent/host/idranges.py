"""Ranges of user ids for the pods of this machine, shared by all agents that run as root here.

A directory has a file for each assigned range. A range is a pod's as long as that pod's record says so.

A killed agent may leave a file and no record, and users remove whole clusters: such a range is assigned
again. Ranges are assigned in turn, so that files a pod left on the machine do not soon belong to another pod.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fathom.agent.host.ids import IDS_FROM, IDS_PER_POD, IDS_TO

# The first is used if it is writable: it survives a reboot, as the pods' files do.
PLACES = (Path("/var/lib/fathom/pod-ids"), Path("/run/fathom/pod-ids"))
RANGES = (IDS_TO - IDS_FROM) // IDS_PER_POD
LAST, LOCK, RECORD = "last", "lock", "pod.json"


class _Record(msgspec.Struct):
    """The field of a pod's record that is read here."""

    ids: int = 0


class IdRanges:
    def __init__(self, places: tuple[Path, ...] = PLACES) -> None:
        self._places = places

    def claim(self, pod_dir: Path, keep: Callable[[int], None]) -> int:
        """The first id of a range for the pod whose record is in `pod_dir`. `keep` writes it into that record
        while the lock is held. Raises OSError, and RuntimeError if all are taken."""
        with self._locked() as directory:
            alive = _ids_of_processes()
            for number in _in_turn(directory):
                first = IDS_FROM + number * IDS_PER_POD
                file = directory / f"{first:x}"
                if number in alive or _holder(file, first) not in {None, pod_dir}:
                    continue
                file.write_text(str(pod_dir))
                keep(first)
                (directory / LAST).write_text(str(number))
                return first
        raise RuntimeError(f"all {RANGES} ranges of user ids for pods are taken on this machine")

    def hold(self, first: int, pod_dir: Path) -> bool:
        """Claim the range again after an agent's restart. False: another pod has it meanwhile."""
        with self._locked() as directory:
            file = directory / f"{first:x}"
            if _holder(file, first) not in {None, pod_dir}:
                return False
            file.write_text(str(pod_dir))
            return True

    def release(self, first: int, pod_dir: Path) -> None:
        with contextlib.suppress(OSError), self._locked() as directory:
            file = directory / f"{first:x}"
            if file.read_text() == str(pod_dir):
                file.unlink()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Path]:
        directory = self._make_directory()
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield directory
        finally:
            os.close(fd)

    def _make_directory(self) -> Path:
        for place in self._places[:-1]:
            with contextlib.suppress(OSError):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                if os.access(place, os.W_OK):
                    return place
        self._places[-1].mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._places[-1]


def _in_turn(directory: Path) -> Iterator[int]:
    """Numbers of all ranges, beginning after the one that was assigned last."""
    last = 0
    with contextlib.suppress(OSError, ValueError):
        last = int((directory / LAST).read_text()) % RANGES
    yield from ((last + step) % RANGES for step in range(1, RANGES + 1))


def _holder(file: Path, first: int) -> Path | None:
    """The directory of the pod that has the range; None: it is free."""
    try:
        pod_dir = Path(file.read_text())
        record = msgspec.json.decode((pod_dir / RECORD).read_bytes(), type=_Record)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError, ValueError):
        return None
    return pod_dir if record.ids == first else None


def _ids_of_processes() -> set[int]:
    """Numbers of the ranges that running processes use, whatever records say."""
    numbers = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                numbers.add((os.stat(f"/proc/{name}").st_uid - IDS_FROM) // IDS_PER_POD)
    return numbers
