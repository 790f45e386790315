"""Recordings in the API server's data directory, for the page: what there is, incidents exported from it, and
replays of these.

Exporting and replaying take seconds of CPU and memory: `fathom record export` and `fathom replay` run in a
child process of low priority, one at a time, with limits. Exports are in DATA/page-exports: the newest few of
this life of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from fathom.model.errors import ApiError, bad_request, not_found, too_many_requests
from fathom.model.times import SECOND_NS, micro_timestamp, timestamp
from fathom.private_files import make_directories
from fathom.record.kept_windows import declared, used_up_since
from fathom.record.recording_gaps import read_gaps
from fathom.record.tape_list import TapeSummary, directories, shelf_of
from fathom.seams.outside import Clock

FOLDER = "page-exports"
EXPORTS_MAX = 5
CHILD_S_MAX = 600.0
CPU_S_MAX = 600
MEMORY_BYTES_MAX = 3 << 30
NICENESS = 15
OUTPUT_CHARACTERS_MAX = 4_000
READ_AGAIN_S = 3  # Reading the ends of all tapes takes some milliseconds each.
OBJECT = re.compile(r"[A-Za-z][A-Za-z.]{0,99}/[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
WINDOW = re.compile(r"(\d{1,5}[smh]){1,3}")


class ExportAsked(msgspec.Struct, frozen=True):
    around: str  # KIND/NAME
    namespace: str = "default"
    window: str = "15m"


class Export(msgspec.Struct, rename="camel"):
    id: str
    around: str
    namespace: str
    window: str
    time: str
    bytes: int
    says: str  # What `fathom record export` printed.
    file: str  # Its name, for whoever saves it.
    replay: dict[str, Any] | None = None  # {"state": "running"}, or the document of `fathom replay`.


class ChildFailed(Exception):
    """The message is what the command said."""


class Recordings:
    def __init__(self, data: Path, clock: Clock, new_id: Callable[[], str]) -> None:
        self._data = data
        self._clock = clock
        self._new_id = new_id
        self._exports: dict[str, Export] = {}  # Oldest first; at most EXPORTS_MAX.
        self._busy = ""  # What a child does now.
        self._tasks: set[asyncio.Task[None]] = set()
        self._read: tuple[int, list[TapeSummary]] = (0, [])  # When, and what.

    async def state(self) -> dict[str, Any]:
        tapes = await asyncio.to_thread(self._tapes)
        return {
            "tapes": tapes,
            "gaps": await asyncio.to_thread(self._gaps),
            "kept": [
                {"around": each.object, "since": timestamp(each.since_ns), "until": timestamp(each.until_ns)}
                for each in declared(self._data)
            ],
            "usedUp": used_up_since(self._data),
            "exports": list(self._exports.values()),
            "busy": self._busy,
        }

    def _tapes(self) -> list[TapeSummary]:
        now_ns = self._clock.now_ns()
        if now_ns - self._read[0] > READ_AGAIN_S * SECOND_NS:
            self._read = (now_ns, shelf_of(self._data))
        return self._read[1]

    def _gaps(self) -> list[dict[str, Any]]:
        return [
            {
                "process": process,
                "since": timestamp(gap.since_ns),
                "until": timestamp(gap.until_ns) if gap.until_ns else "",
                "lost": gap.lost,
            }
            for process, directory in directories(self._data).items()
            for gap in read_gaps(directory)
        ]

    async def export(self, asked: ExportAsked) -> Export:
        """Raises 400, 429."""
        _check(asked)
        export_id = self._new_id()
        with self._alone(f"exporting {asked.around}"):
            folder = self._folder()
            file = folder / f"{export_id}.incident"
            arguments = [f"--around={asked.around}", f"--namespace={asked.namespace}"]
            try:
                says = await _output(
                    "record",
                    "export",
                    f"--data={self._data}",
                    *arguments,
                    f"--window={asked.window}",
                    f"--out={file}",
                )
            except ChildFailed as error:
                file.unlink(missing_ok=True)
                raise bad_request(str(error)) from None
        export = Export(
            id=export_id,
            around=asked.around,
            namespace=asked.namespace,
            window=asked.window,
            time=micro_timestamp(self._clock.now_ns()),
            bytes=file.stat().st_size,
            says=says.replace(str(file), "the file"),
            file=f"{asked.around.replace('/', '-')}.incident",
        )
        self._keep(export)
        return export

    def _folder(self) -> Path:
        folder = self._data / FOLDER
        if not self._exports:  # Of an earlier life of this server.
            shutil.rmtree(folder, ignore_errors=True)
        make_directories(folder)
        return folder

    def _keep(self, export: Export) -> None:
        self._exports[export.id] = export
        while len(self._exports) > EXPORTS_MAX:
            oldest = next(iter(self._exports))
            del self._exports[oldest]
            self._file(oldest).unlink(missing_ok=True)

    def find(self, export_id: str) -> Export:
        """Raises 404."""
        export = self._exports.get(export_id)
        if export is None:
            raise not_found("exports", export_id[:50])
        return export

    def open(self, export_id: str) -> FileStream:
        """Raises 404."""
        self.find(export_id)
        try:
            return FileStream(self._file(export_id))
        except OSError:
            raise not_found("exports", export_id[:50]) from None

    def _file(self, export_id: str) -> Path:
        return self._data / FOLDER / f"{export_id}.incident"

    def start_replay(self, export_id: str) -> Export:
        """Raises 404, 429."""
        export = self.find(export_id)
        self._require_idle()
        self._busy = f"replaying {export.around}"  # Now, and not when the task begins.
        export.replay = {"state": "running", "since": timestamp(self._clock.now_ns())}
        task = asyncio.create_task(self._replay(export))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return export

    async def _replay(self, export: Export) -> None:
        try:
            text = await _output("replay", str(self._file(export.id)), "--output=json", answers=(0, 1))
            export.replay = {"state": "done", "result": msgspec.json.decode(text)}
        except (ChildFailed, msgspec.DecodeError) as error:
            export.replay = {"state": "failed", "message": str(error)[:OUTPUT_CHARACTERS_MAX]}
        finally:
            self._busy = ""

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Raises 429."""
        self._require_idle()
        self._busy = what
        try:
            yield
        finally:
            self._busy = ""

    def _require_idle(self) -> None:
        if self._busy:
            raise _busy(self._busy)


def _busy(what: str) -> ApiError:
    return too_many_requests(
        f"the server is {what}, and does one at a time: try again later", retry_after_s=5
    )


def _check(asked: ExportAsked) -> None:
    """Raises 400."""
    if OBJECT.fullmatch(asked.around) is None:
        raise bad_request(f"around must be KIND/NAME, such as deployment/web, not {asked.around[:100]!r}")
    if NAMESPACE.fullmatch(asked.namespace) is None:
        raise bad_request(f"{asked.namespace[:100]!r} is no name of a namespace")
    if WINDOW.fullmatch(asked.window) is None:
        raise bad_request(f"the window is a duration such as 10m, not {asked.window[:100]!r}")


async def _output(*arguments: str, answers: tuple[int, ...] = (0,)) -> str:
    """What a command of fathom's prints. Raises ChildFailed."""
    pipe: Any = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "fathom.cli", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
    )
    try:
        _limit(child.pid)
        async with asyncio.timeout(CHILD_S_MAX):
            out, errors = await child.communicate()
    except TimeoutError:
        raise ChildFailed(f"it took longer than {CHILD_S_MAX:g} s: run the command in a terminal") from None
    finally:
        if child.returncode is None:
            child.kill()
    if child.returncode not in answers:
        message = errors.decode(errors="replace").strip().removeprefix("fathom: ")
        raise ChildFailed(message[-OUTPUT_CHARACTERS_MAX:] or f"the command ended with {child.returncode}")
    return out.decode(errors="replace")


def _limit(pid: int) -> None:
    """The API server answers meanwhile: the child runs only where nobody else wants to."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
        resource.prlimit(pid, resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
        resource.prlimit(pid, resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


class FileStream:
    """A StreamSource: a file in chunks."""

    CHUNK_BYTES = 256 << 10

    def __init__(self, file: Path) -> None:
        """Raises OSError."""
        self._file = file.open("rb")

    async def next(self) -> bytes | None:
        if self._file.closed:
            return None
        chunk = await asyncio.to_thread(self._file.read, self.CHUNK_BYTES)
        if not chunk:
            self.close()
        return chunk or None

    def close(self) -> None:
        self._file.close()
