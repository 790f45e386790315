"""Reads tapes for a question about the past, in a process of its own.

    endpoint ──JSON on stdin──> python -m fathom.record.past_worker ──packed JSON on stdout──> endpoint

A deciding process must not wait for a question, and a tape may have gigabytes. So the worker runs beside it
at the lowest priority, one at a time, with limits on its time, its memory and its answer.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fathom.record.past_objects import TapeState, moment_at, oldest_moment, state_at
from fathom.record.segment import NotASegment
from fathom.record.tape import BadTape, reels

# The API server waits for 10 s in total.
CPU_S_MAX = 8
WAIT_S_MAX = 9.0
MEMORY_BYTES_MAX = 2 << 30
# Packed; some 20,000 pods. The API server accepts no more.
ANSWER_BYTES_MAX = 8 << 20


class PastQuestion(msgspec.Struct, frozen=True):
    tapes: dict[str, str]  # Name -> directory.
    revision: int = 0  # Wanted: the objects of this revision; or
    time_ns: int = 0  # the revision of this time.


class NoPastAnswer(Exception):
    """The worker did not answer; the message says why."""


def answer(question: PastQuestion) -> list[TapeState]:
    states = [_state(name, Path(directory), question) for name, directory in sorted(question.tapes.items())]
    return _each_kind_once(states)


def _state(name: str, directory: Path, question: PastQuestion) -> TapeState:
    try:
        runs = reels(directory)
        if question.time_ns:
            moment = moment_at(runs, question.time_ns)
            return TapeState(tape=name, oldest=oldest_moment(runs), moment=moment)
        return state_at(name, runs, question.revision)
    except (BadTape, NotASegment, msgspec.DecodeError, OSError) as error:
        return TapeState(tape=name, problem=str(error))
    except MemoryError:
        return TapeState(tape=name, problem=f"its state does not fit into {MEMORY_BYTES_MAX >> 20} MiB")


def _each_kind_once(states: list[TapeState]) -> list[TapeState]:
    """Processes follow the same kinds: the state that is newest, up to the wanted revision, is enough."""
    best: dict[str, str] = {}
    for state in states:
        for kind, past in state.kinds.items():
            others = [other.kinds[kind].revision for other in states if kind in other.kinds]
            if past.revision == max(others):
                best.setdefault(kind, state.tape)
    return [
        msgspec.structs.replace(
            state, kinds={kind: past for kind, past in state.kinds.items() if best[kind] == state.tape}
        )
        for state in states
    ]


# The worker's process.


def main() -> None:
    os.nice(19)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=PastQuestion)
    sys.stdout.buffer.write(_packed(answer(question)))


def _packed(states: list[TapeState]) -> bytes:
    return zlib.compress(msgspec.json.encode(states), 1)


# The process that starts it.


class PastWorker:
    """Starts workers, one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def ask(self, tapes: Mapping[str, Path], *, revision: int = 0, time_ns: int = 0) -> bytes:
        """The packed answer: a `TapeState` of each tape. Raises NoPastAnswer."""
        if not tapes:
            return _packed([])
        question = PastQuestion({name: str(path) for name, path in tapes.items()}, revision, time_ns)
        try:
            async with asyncio.timeout(WAIT_S_MAX), self._turn:
                return await _answer_of_worker(msgspec.json.encode(question))
        except TimeoutError:
            raise NoPastAnswer(f"its tapes could not be read within {WAIT_S_MAX:g} s") from None


async def _answer_of_worker(question: bytes) -> bytes:
    command = (sys.executable, "-P", "-m", "fathom.record.past_worker")
    worker = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        out, _ = await worker.communicate(question)
    finally:
        if worker.returncode is None:
            worker.kill()
    if worker.returncode != 0:
        limits = f"{CPU_S_MAX} s of CPU or {MEMORY_BYTES_MAX >> 20} MiB"
        raise NoPastAnswer(f"its tapes could not be read with {limits}")
    if len(out) > ANSWER_BYTES_MAX:
        raise NoPastAnswer(f"its state then is larger than {ANSWER_BYTES_MAX >> 20} MiB, packed")
    return out


if __name__ == "__main__":
    main()
