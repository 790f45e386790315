"""What recording costs: a record on the tape, an input that crosses the seam, a decision in the journal.

No server: a request is answered by the host's loop itself, so that what is measured is the crossing. The
payloads are pods as watches bring them, each another.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

from fathom.bench.result import Machine, this_machine
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, Outcome, SeenVersions, Subject
from fathom.record.journal import DiskJournal
from fathom.record.replay import replay
from fathom.record.segment import FRAME
from fathom.record.tape import HEAD, DiskTape, ask_payload, reels
from fathom.seams.domain import Domain
from fathom.seams.host import Host, NoTape, Tape
from fathom.seams.outside import SystemClock
from fathom.seams.process import Birth, Inside
from fathom.seams.seam import Ask, Input, Reply, Seam

BATCH = 1000
PODS = 200
OVERHEAD_BYTES = FRAME.size + HEAD.size


class RecordLoad(msgspec.Struct, frozen=True):
    inputs: int
    directory: Path | None = None


class RecordResult(msgspec.Struct, frozen=True, kw_only=True):
    """Times are of one input, request or decision, the median over batches: CPU time of the deciding thread,
    which others on the machine disturb least. Packing has a thread of its own and is not in them."""

    bench: str = "record"
    append_us: float  # The tape alone.
    append_bytes: float
    packed_bytes: float  # Once its segment is full and packed.
    ask_us: float
    ask_bytes: float
    crossing_us: float  # Request, answer, until the waiting coroutine continues; nothing recorded.
    crossing_recorded_us: float
    journal_us: float  # A decision and its outcome.
    journal_bytes: float
    replay_us: float  # An input and what comes of it.
    parameters: dict[str, int]
    machine: Machine


def run_record(load: RecordLoad) -> RecordResult:
    with tempfile.TemporaryDirectory(dir=load.directory) as folder:
        root = Path(folder)
        pods = _pods(random.Random(1))
        append_us, append_bytes, packed_bytes = _appends(root / "append", load.inputs, pods)
        ask_us, ask_bytes = _asks(root / "asks", load.inputs)
        plain_us = uvloop.run(_crossings(NoTape(), load.inputs, pods))
        tape = DiskTape(root / "tape")
        recorded_us = uvloop.run(_crossings(tape, load.inputs, pods))
        tape.close()
        journal_us, journal_bytes = _decisions(root / "journal", load.inputs)
        return RecordResult(
            append_us=append_us,
            append_bytes=append_bytes,
            packed_bytes=packed_bytes,
            ask_us=ask_us,
            ask_bytes=ask_bytes,
            crossing_us=plain_us,
            crossing_recorded_us=recorded_us,
            journal_us=journal_us,
            journal_bytes=journal_bytes,
            replay_us=_replayed_us(root / "tape", pods),
            parameters={"inputs": load.inputs, "payload_bytes": round(statistics.mean(map(len, pods)))},
            machine=this_machine(),
        )


def _pods(rng: random.Random) -> list[bytes]:
    return [_pod(rng, number) for number in range(PODS)]


def _pod(rng: random.Random, number: int) -> bytes:
    owner = f"web-{number % 20}-5d4f8c7b9"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": f"2026-01-01T10:00:{number % 60:02}Z"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{owner}-{rng.getrandbits(25):05x}",
            "namespace": "default",
            "uid": str(uuid.UUID(int=rng.getrandbits(128))),
            "resourceVersion": str(100_000 + number),
            "labels": {"app": f"web-{number % 20}", "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True}
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "app",
                    "image": "registry.example.com/team/app:1.2.3",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }
            ],
            "nodeName": f"node-{rng.randrange(100)}",
            "schedulerName": "default-scheduler",
        },
        "status": {"phase": "Running", "podIP": f"10.0.0.{number % 250}", "conditions": conditions},
    }
    return msgspec.json.encode({"type": "MODIFIED", "object": pod}) + b"\n"


def _batches(count: int, act: Callable[[int], object]) -> float:
    """The median time of one, in microseconds."""
    times = []
    for start in range(0, count, BATCH):
        began_ns = time.thread_time_ns()
        for number in range(start, start + BATCH):
            act(number)
        times.append((time.thread_time_ns() - began_ns) / BATCH / 1000)
    return round(statistics.median(times), 3)


def _stored(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.seg"))


def _start(tape: Tape) -> Birth:
    birth = Birth(entry="bench/record", seed="1", epoch_ns=0)
    payload = msgspec.json.encode(birth)
    tape.append(Input.START, 0, now_ns=0, status=0, checksum=0, payload=payload)
    return birth


def _appends(directory: Path, count: int, pods: list[bytes]) -> tuple[float, float, float]:
    tape = DiskTape(directory)
    _start(tape)

    def append(number: int) -> None:
        payload = pods[number % PODS]
        tape.append(Input.CHUNK, number, now_ns=number, status=0, checksum=0, payload=payload)

    append_us = _batches(count, append)
    raw = statistics.mean(len(record.payload) for record in reels(directory)[0].records()) + OVERHEAD_BYTES
    tape.close()
    return append_us, round(raw, 1), round(_stored(directory) / tape.records, 1)


def _asks(directory: Path, count: int) -> tuple[float, float]:
    tape = DiskTape(directory)
    _start(tape)
    ask = Ask("PUT", "/api/v1/namespaces/default/pods/web-7-5d4f8c7b9-1a2b3/status", b"{}")
    ask_us = _batches(count, lambda number: tape.asked(number, ask, now_ns=number, checksum=1))
    tape.close()
    return ask_us, float(OVERHEAD_BYTES + len(ask_payload(ask, whole=False)))


def _decisions(directory: Path, count: int) -> tuple[float, float]:
    journal = DiskJournal(directory)
    rng = random.Random(2)
    ids = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(count + BATCH)]

    def decide(number: int) -> None:
        decision = Decision(
            id=ids[number],
            time_ns=number,
            controller="replicasets",
            subject=Subject("replicasets.apps", "default", f"web-{number % 50}", ids[number % 50], 3),
            verdict="create",
            cause=WakeCause("event", resource="pods", namespace="default", name="web-7-1", revision=4711),
            seen={"replicasets.apps": SeenVersions(number, 12), "pods": SeenVersions(number, 3)},
            actions=(f"create pod default/web-{number % 50}-1",),
        )
        journal.decided(decision)
        journal.concluded(Outcome(id=decision.id, time_ns=number, result="committed", revision=number))

    journal_us = _batches(count, decide)
    journal.close()
    return journal_us, round(_stored(directory) / count, 1)


class _Echo:
    """Answers at the host loop's next turn."""

    def __init__(self, host: Host, pods: list[bytes]) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._pods = pods

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self._loop.call_soon(self._host.post, Input.REPLY, number, 200, self._pods[number % PODS])

    def cancel(self, number: int) -> None: ...


# Requests in flight at once: as many as a controller has workers.
WORKERS = 8


def begin(inside: Inside) -> None:
    for _ in range(WORKERS):
        inside.domain.create_task(_ask_for_ever(inside.seam, lambda reply: None))


async def _ask_for_ever(seam: Seam, on_reply: Callable[[Reply], None]) -> None:
    while True:
        on_reply(await seam.request(Ask("GET", "/api/v1/namespaces/default/pods/web"), timeout_s=10))


async def _crossings(tape: Tape, count: int, pods: list[bytes]) -> float:
    domain, clock = Domain(), SystemClock()
    host = Host(domain, clock, tape)
    seam = Seam(domain, _Echo(host, pods))
    birth = Birth(entry="bench/record", seed="1", epoch_ns=clock.now_ns())
    inside = Inside(birth, domain, seam)
    times: list[float] = []
    began_ns, replies = time.thread_time_ns(), 0

    def note(reply: Reply) -> None:
        nonlocal began_ns, replies
        replies += 1
        if replies % BATCH == 0:
            now_ns = time.thread_time_ns()
            times.append((now_ns - began_ns) / BATCH / 1000)
            began_ns = now_ns
        if replies == count:
            host.stop()

    def start() -> None:
        for _ in range(WORKERS):
            inside.domain.create_task(_ask_for_ever(seam, note))

    host.start(seam, start, msgspec.json.encode(birth))
    await host.done
    seam.cut()
    domain.bury()
    return round(statistics.median(times), 3)


def _replayed_us(directory: Path, pods: list[bytes]) -> float:
    (reel,) = reels(directory)
    began_ns = time.thread_time_ns()
    result = replay(reel.records(), entry=begin)
    assert result.matched, result.first_divergence
    return round((time.thread_time_ns() - began_ns) / result.inputs / 1000, 3)


def as_table(result: RecordResult) -> str:
    recording_us = result.crossing_recorded_us - result.crossing_us
    rows = [
        (
            "tape, an input",
            result.append_us,
            f"{result.append_bytes:,.0f} bytes, packed {result.packed_bytes:,.0f}",
        ),
        ("tape, a request", result.ask_us, f"{result.ask_bytes:,.0f} bytes"),
        ("seam crossing", result.crossing_us, "request and answer"),
        ("the same, recorded", result.crossing_recorded_us, f"recording takes {recording_us:.2f} µs of it"),
        ("journal, a decision", result.journal_us, f"{result.journal_bytes:,.0f} bytes, packed"),
        ("replay, an input", result.replay_us, "with the requests that it leads to"),
    ]
    machine = result.machine
    title = (
        f"recording, {result.parameters['inputs']:,} inputs of {result.parameters['payload_bytes']:,} bytes"
    )
    lines = [f"{title}, on {machine.cores} cores, Python {machine.python}", ""]
    return "\n".join([*lines, *(f"{name:<20} {us:>8.2f} µs  {text}" for name, us, text in rows)])


def as_json(result: RecordResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
