"""Runs previews in a process of its own: a fork takes seconds of CPU, which the API server does not have.

    PreviewJob ──MessagePack on stdin──> python -m fathom.sim.preview.worker ──JSON on stdout──> PreviewReply

The child has a low priority, and limits on its time and memory; one runs at a time. It gets the state
through the pipe and has no connection to the cluster, so nothing that it does can reach it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from fathom.kinds.preview_answer import Preview
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.store.protocol import Entry

WORKER = "fathom.sim.preview.worker"
# The API server gives a request a minute in total.
WAIT_S_MAX = 50.0
CPU_S_MAX = 60
MEMORY_BYTES_MAX = 3 << 30
# Some 30,000 pods: more would not fit into the child's time.
STATE_BYTES_MAX = 128 << 20


class StateEntry(msgspec.Struct, frozen=True, array_like=True):
    """One key of the store."""

    key: str
    body: bytes
    revision: int
    created: int


class PreviewJob(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[StateEntry]
    revision: int
    time_ns: int
    pod_metrics: list[Obj]
    tried: Obj  # A SchedulerOverride or a RunbookRun.
    user: User
    minutes: int
    seeds: tuple[str, ...]


class PreviewReply(msgspec.Struct, frozen=True):
    preview: Preview | None = None
    failed: str = ""


class NoPreview(Exception):
    """The child did not answer; the message says why."""


async def answer_of_child(job: PreviewJob) -> Preview:
    """Raises NoPreview."""
    encoded = await asyncio.to_thread(msgspec.msgpack.encode, job)
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            out = await _output_of_child(encoded)
    except TimeoutError:
        why = f"it took longer than {WAIT_S_MAX:g} s"
        raise NoPreview(f"{why}: ask for fewer minutes or seeds") from None
    try:
        reply = msgspec.json.decode(out, type=PreviewReply)
    except msgspec.DecodeError as error:
        raise NoPreview(f"the answer of the fork cannot be read: {error}") from None
    if reply.preview is None:
        raise NoPreview(reply.failed)
    return reply.preview


async def _output_of_child(job: bytes) -> bytes:
    pipe: Any = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", WORKER),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    try:
        out, errors = await child.communicate(job)
    finally:
        if child.returncode is None:
            child.kill()
    if child.returncode != 0:
        limits = f"{CPU_S_MAX} s of CPU, {MEMORY_BYTES_MAX >> 30} GiB"
        last = errors.decode(errors="replace").strip().rpartition("\n")[2][:200]
        raise NoPreview(f"the fork ended early ({last or f'its limits are {limits}'})")
    return out


def entries_for_fork(entries: tuple[Entry, ...]) -> list[StateEntry]:
    """What a fork begins with: no contents of Secrets, and no Events, which nobody decides by."""
    return [
        StateEntry(entry.key, _body_for_fork(entry), entry.revision, entry.created)
        for entry in entries
        if not entry.key.startswith("/registry/events")
    ]


def _body_for_fork(entry: Entry) -> bytes:
    """Of a Secret only its name and the names of its keys. Annotations may repeat the contents."""
    if not entry.key.startswith("/registry/secrets/"):
        return entry.body.encoded
    secret = entry.body.obj
    meta = {name: value for name, value in secret["metadata"].items() if name != "annotations"}
    kept = {name: secret[name] for name in ("kind", "apiVersion", "type", "immutable") if name in secret}
    data = dict.fromkeys(secret.get("data") or {}, "")
    return msgspec.json.encode({**kept, "metadata": meta, "data": data})
