"""Windows of time whose records keep full detail: rollouts, active overrides, declared incidents.

    DATA/kept/incident-TIME.json   declared by `fathom record keep`, for all processes
    DATA/kept/process-NAME.json    noted by a process from its own decisions: rollouts and overrides
    DATA/kept/used-up-NAME         when the process had to drop records of a window: no budget was left

A ring asks `covers` before it thins or drops a segment; segments of windows may use up a part of the budget
(`ring.KEPT_SHARE`), the newest first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fathom import private_files
from fathom.model.decision import Decision
from fathom.model.resource_names import DEPLOYMENTS
from fathom.model.times import SECOND_NS, micro_timestamp
from fathom.private_files import make_directories

FOLDER = "kept"

# Before the first and after the last decision of a rollout or under an override.
LEAD_NS, TAIL_NS = 60 * SECOND_NS, 120 * SECOND_NS
# Of the windows that a process notes itself; the oldest are forgotten.
NOTED_MAX = 200
# How often a window that goes on is written again.
NOTE_EVERY_NS = 10 * SECOND_NS

POLICY_ROLLOUTS = "policyrollouts.fathom.dev"


class KeptWindow(msgspec.Struct, frozen=True):
    since_ns: int
    until_ns: int
    why: str  # 'incident', 'rollout', 'override'
    object: str = ""  # 'pods default/web-1'

    def overlaps(self, since_ns: int, until_ns: int) -> bool:
        return self.since_ns <= until_ns and since_ns <= self.until_ns


class KeptWindows:
    """The windows of a data directory, for one process that records there."""

    def __init__(self, data: Path, process: str) -> None:
        self._folder = data / FOLDER
        self._process = process
        self._own = list(_read(self._file))
        self._declared: tuple[KeptWindow, ...] = ()
        self._read_at_ns = -1  # The folder's time of change when `_declared` was read.
        self._written_until_ns = 0

    @property
    def _file(self) -> Path:
        return self._folder / f"process-{self._process}.json"

    def note(self, decision: Decision) -> None:
        """Open or extend a window, if the decision belongs to a rollout or an override."""
        why = _why(decision)
        if why:
            self._note(why, decision)

    def _note(self, why: str, decision: Decision) -> None:
        now_ns, subject = decision.time_ns, decision.subject
        window = KeptWindow(
            now_ns - LEAD_NS, now_ns + TAIL_NS, why, f"{subject.resource} {subject.namespace}/{subject.name}"
        )
        last = self._own[-1] if self._own else None
        if last is not None and last.overlaps(window.since_ns, window.until_ns):
            until_ns = max(last.until_ns, window.until_ns)
            self._own[-1] = msgspec.structs.replace(last, until_ns=until_ns)
        else:
            self._own = [*self._own[-NOTED_MAX + 1 :], window]
        if self._own[-1].until_ns - self._written_until_ns > NOTE_EVERY_NS:
            self._written_until_ns = self._own[-1].until_ns
            with contextlib.suppress(OSError):  # A full disk: the window is known until the process ends.
                _write(self._file, self._own)

    @property
    def active(self) -> bool:
        return bool(self._own or self._incidents())

    def covers(self, since_ns: int, until_ns: int) -> bool:
        """Whether a window overlaps this time."""
        windows = (*self._own, *self._incidents())
        return any(window.overlaps(since_ns, until_ns) for window in windows)

    def used_up(self) -> None:
        """Records of a window are about to be dropped or shortened: their part of the budget is used up."""
        with contextlib.suppress(OSError):
            make_directories(self._folder)
            private_files.write(self._folder / f"used-up-{self._process}", b"")

    def _incidents(self) -> tuple[KeptWindow, ...]:
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except OSError:
            return ()
        if changed_ns != self._read_at_ns:
            self._declared = declared(self._folder.parent)
            self._read_at_ns = changed_ns
        return self._declared


def declare(data: Path, window: KeptWindow) -> Path:
    """Every process that records in this directory keeps the window from now on."""
    file = data / FOLDER / f"incident-{window.since_ns}-{window.until_ns}.json"
    _write(file, [window])
    return file


def declared(data: Path) -> tuple[KeptWindow, ...]:
    files = sorted((data / FOLDER).glob("incident-*.json"))
    return tuple(window for file in files for window in _read(file))


def noted(data: Path) -> dict[str, tuple[KeptWindow, ...]]:
    """Process -> the windows that it has noted itself."""
    files = sorted((data / FOLDER).glob("process-*.json"))
    return {file.stem.removeprefix("process-"): _read(file) for file in files}


def used_up_since(data: Path) -> dict[str, str]:
    """Process -> when it last had to drop or shorten records of a window."""
    files = sorted((data / FOLDER).glob("used-up-*"))
    times = {file.name.removeprefix("used-up-"): file.stat().st_mtime_ns for file in files}
    return {process: micro_timestamp(time_ns) for process, time_ns in times.items()}


def _why(decision: Decision) -> str:
    if decision.overrides:
        return "override"
    resource = decision.subject.resource
    if resource == POLICY_ROLLOUTS or (resource == DEPLOYMENTS and "create" in decision.verbs):
        return "rollout"
    return ""


def _read(file: Path) -> tuple[KeptWindow, ...]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=tuple[KeptWindow, ...])
    except (OSError, msgspec.DecodeError):
        return ()


def _write(file: Path, windows: Sequence[KeptWindow]) -> None:
    make_directories(file.parent)
    private_files.write(file, msgspec.json.encode(windows))
