"""Watch running containers through the pidfds of their shims, and report how each run ended.

The exit comes from the shim's record; if the shim could not write one, the run is reported as lost.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable

import msgspec

from fathom.agent.host.orphan_processes import end_orphans
from fathom.agent.host.records import ExitRecord, Records, RunRecord, boot_id, is_alive
from fathom.agent.runtime import ContainerRun
from fathom.model.objects import uid_of
from fathom.seams.log import Log

AGAIN_S = 1.0  # Before an operation that failed is retried.
LOST = "the container's shim was killed: how the container ended is unknown"


class Watched(msgspec.Struct, frozen=True):
    fd: int  # The shim's pidfd.
    record: RunRecord  # In memory too: files may be lost, and the run must still be ended.


class RunWatcher:
    """Make it on the host's loop."""

    def __init__(self, records: Records, log: Log) -> None:
        self._records = records
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._boot = boot_id()
        self._watched: dict[str, Watched] = {}  # By run id: runs whose shim is alive.
        self.on_end: Callable[[ContainerRun], None] = lambda run: None

    def record(self, run_id: str) -> RunRecord | None:
        watched = self._watched.get(run_id)
        return None if watched is None else watched.record

    def forget(self, uid: str | None = None) -> None:
        """Stop watching all runs of a pod, or all runs."""
        for run_id in [key for key, watched in self._watched.items() if uid in {None, watched.record.uid}]:
            self._unwatch(run_id)

    def adopt_all(self) -> None:
        for record in self._records.pods():
            for run in self._records.runs(uid_of(record.pod)):
                if run.exit is None:
                    self.watch(run)

    def watch(self, run: ContainerRun) -> None:
        """A run ends with its shim. A shim that is gone already is detected now; if that cannot be
        determined, try again later."""
        try:
            record = self._records.run_record(run.uid, run.container, run.attempt)
            if record is None or run.id in self._watched:
                return
            fd = self._pidfd(record)
        except OSError as error:
            self._log.warn("a container run cannot be watched yet, will retry", run=run.id, error=str(error))
            self._loop.call_later(AGAIN_S, self.watch, run)
            return
        if fd is None:
            self._ended(run, record)
            return
        self._watched[run.id] = Watched(fd, record)
        self._loop.add_reader(fd, self._shim_ended, run)

    def _pidfd(self, record: RunRecord) -> int | None:
        """None: the shim is gone. Raises OSError if that cannot be determined."""
        try:
            fd = os.pidfd_open(record.shim)
        except OSError as error:
            if error.errno in {errno.ESRCH, errno.EINVAL}:  # No such process; pid 0 of a failed start.
                return None
            raise
        try:
            if record.boot == self._boot and is_alive(record.shim, record.shim_started):
                return fd
        except OSError:
            os.close(fd)
            raise
        os.close(fd)
        return None

    def _unwatch(self, run_id: str) -> RunRecord:
        watched = self._watched.pop(run_id)
        self._loop.remove_reader(watched.fd)
        os.close(watched.fd)
        return watched.record

    def _shim_ended(self, run: ContainerRun) -> None:
        self._ended(run, self._unwatch(run.id))

    def _ended(self, run: ContainerRun, record: RunRecord) -> None:
        try:
            ended = self._records.run(run.uid, run.container, run.attempt)
        except OSError as error:
            self._log.warn(
                "exit record of a container run cannot be read, will retry", run=run.id, error=str(error)
            )
            self._loop.call_later(AGAIN_S, self._ended, run, record)
            return
        self.on_end(ended if ended is not None and ended.exit is not None else self._lost(run, record))

    def _lost(self, run: ContainerRun, record: RunRecord) -> ContainerRun:
        """The shim was killed, or could not record how the run ended."""
        if record.boot == self._boot:
            end_orphans(record)
        now_ns = time.time_ns()
        unknown = ExitRecord(137, now_ns, run.started_ns, 9, "ContainerStatusUnknown", LOST)
        lost = self._records.with_cause(unknown, run.uid, run.container, run.attempt)
        try:
            self._records.write_exit(run, lost)
        except OSError as error:  # A full disk. Report the end all the same, or the pod would seem to run.
            self._log.warn("exit record of a container run cannot be written", run=run.id, error=str(error))
        return msgspec.structs.replace(run, exit=lost.exit)
