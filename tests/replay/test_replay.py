"""A replay matches, or says where it first does not."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.replay import toys
from tests.replay.toys import COUNT, ListJournal, asks_of, recorded

from fathom import __version__
from fathom.record.replay import ReplayResult, replay
from fathom.record.tape import ASK, BadTape, Record
from fathom.seams.process import Birth, Inside, NoEntry
from fathom.seams.seam import Input

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_the_same_inputs_to_the_same_code_make_the_same_requests() -> None:
    live, again = ListJournal(), ListJournal()
    records = recorded(journal=live)
    result = replay(records, journal=again)
    assert (result.matched, result.asks, result.writes, result.decisions) == (True, COUNT, COUNT, COUNT)
    assert result.inputs == len(records) - COUNT
    assert (result.first_divergence, result.unrecorded) == (None, 0)
    assert again.said == live.said


def test_every_prefix_is_replayed_as_far_as_it_goes() -> None:
    records = recorded(count=6)
    for length in range(1, len(records) + 1):
        result = replay(records[:length])
        assert (result.matched, result.asks) == (True, len(asks_of(records[:length])))
        # Killed between an input and the record of what came of it.
        assert result.unrecorded == (length < len(records) and records[length].kind == ASK)


LEAKS_AT_ONCE = [name for name in toys.LEAKS if name not in {"none", "pid", "hash order"}]


@pytest.mark.parametrize("leak", LEAKS_AT_ONCE)
def test_code_that_lets_the_outside_in_is_named_by_the_request_that_differs(leak: str) -> None:
    result = replay(recorded(leak=leak))
    found = result.first_divergence
    assert found is not None
    assert (result.matched, found.ask, found.why) == (
        False,
        COUNT // 2 + 1,
        "the replay sent a different request",
    )
    assert found.live is not None
    assert found.replayed is not None
    assert (found.live.method, found.live.target) == ("POST", f"/things/{COUNT // 2}")
    assert (found.live.target, found.live.checksum == found.replayed.checksum) == (
        found.replayed.target,
        False,
    )
    assert found.replayed.headers == ("x-toy: 1",)
    assert found.replayed.body is not None
    assert found.after.kind == "TICK"
    assert result.asks == COUNT // 2


def test_a_request_that_is_no_longer_made_is_named() -> None:
    result = replay(recorded(), entry=toys.begin_silent)
    found = result.first_divergence
    assert found is not None
    assert (found.ask, found.why, found.replayed) == (
        COUNT // 2 + 1,
        "the replay did not send this request",
        None,
    )
    assert found.live is not None
    assert found.live.target == f"/things/{COUNT // 2}"


def test_a_request_that_was_not_made_before_is_named_with_the_input_that_it_follows() -> None:
    result = replay(recorded(), entry=toys.begin_chatty)
    found = result.first_divergence
    assert found is not None
    assert found.replayed is not None
    seen = {found.replayed.target} | ({found.live.target} if found.live else set())
    assert "/more" in seen
    assert found.after.index == result.inputs


def test_an_answer_that_was_tampered_with_shows_in_the_next_request() -> None:
    records = recorded()
    answer = next(record for record in records if record.kind == Input.REPLY)
    changed = msgspec.structs.replace(answer, status=404)
    found = replay([changed if record is answer else record for record in records]).first_divergence
    assert found is not None
    assert found.replayed is not None
    assert (found.ask, found.replayed.target) == (2, "/things/1")
    assert found.replayed.body is not None
    assert found.replayed.body.endswith(" 404")


def test_code_that_fails_where_it_did_not_is_named() -> None:
    result = replay(recorded(), entry=toys.begin_broken)
    found = result.first_divergence
    assert found is not None
    assert "ValueError: a bug that the live process did not have" in found.why
    assert (found.after.kind, found.after.what) == ("REPLY", "201 to request 1, POST /things/0")


def test_code_that_fails_at_the_tapes_end_may_have_failed_there_before() -> None:
    records = recorded()
    end = next(index for index, record in enumerate(records) if record.kind == Input.REPLY) + 1
    result = replay(records[:end], entry=toys.begin_broken)
    assert result.matched
    assert "the process ended with ValueError: a bug that the live process did not have" in result.notes


def test_other_versions_are_said() -> None:
    assert replay(recorded(python="2.7")).notes == (
        f"recorded by fathom ?, replayed by {__version__}",
        f"recorded on Python 2.7, replayed on {HERE}",
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda records: [], "does not begin"),
        (lambda records: records[1:], "does not begin"),
        (lambda records: [msgspec.structs.replace(records[0], payload=b"{")], "first record cannot be read"),
        (
            lambda records: [records[0], Record(99, 0, 0, 0, 0, b"")],
            "does not know records of kind 99",
        ),
    ],
)
def test_what_is_no_tape_is_refused(change: object, complaint: str) -> None:
    records = change(recorded(count=1))  # type: ignore[operator]  # each is a function
    with pytest.raises(BadTape, match=complaint):
        replay(records)


def test_code_that_is_not_here_is_said() -> None:
    (start, *rest) = recorded(count=1)
    strange = start.payload.replace(b"tests.replay.toys", b"tests.replay.gone")
    with pytest.raises(NoEntry, match=r"tests\.replay\.gone"):
        replay([msgspec.structs.replace(start, payload=strange), *rest])


REPLAY = """
import sys, msgspec
from fathom.record.replay import replay
from fathom.record.tape import Record
records = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[Record])
sys.stdout.buffer.write(msgspec.json.encode(replay(records)))
"""


def replayed_elsewhere(records: list[Record], hash_seed: int) -> ReplayResult:
    done = subprocess.run(
        [sys.executable, "-c", REPLAY],
        input=msgspec.msgpack.encode(records),
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    return msgspec.json.decode(done.stdout, type=ReplayResult)


def test_another_interpreter_replays_it_too() -> None:
    result = replayed_elsewhere(recorded(), hash_seed=4711)
    assert (result.matched, result.asks) == (True, COUNT)


@pytest.mark.parametrize("leak", ["pid", "hash order"])
def test_what_differs_only_between_interpreters_is_found_by_another_one(leak: str) -> None:
    records = recorded(leak=leak)
    assert replay(records).matched
    result = replayed_elsewhere(records, hash_seed=4711)
    assert result.first_divergence is not None
    assert result.first_divergence.ask == COUNT // 2 + 1


# Code that only waits.


def waits(first_s: float, second_s: float) -> Callable[[Inside], None]:
    """An entry that sends nothing: it sets two timers, and ends with the later one."""

    async def run(inside: Inside) -> None:
        await asyncio.gather(asyncio.sleep(first_s), asyncio.sleep(second_s))

    return lambda inside: void(inside.domain.create_task(run(inside)))


def void(_: object) -> None: ...


def by_version(records: list[Record], version: str) -> list[Record]:
    """The same tape, as another version recorded it."""
    birth = msgspec.json.decode(records[0].payload, type=Birth)
    payload = msgspec.json.encode(msgspec.structs.replace(birth, fathom=version))
    return [msgspec.structs.replace(records[0], payload=payload), *records[1:]]


def test_code_that_waits_for_another_time_is_found_though_it_sends_nothing() -> None:
    records = by_version(recorded(waits(0.01, 0.02)), __version__)
    assert replay(records, entry=waits(0.01, 0.02)).matched
    sooner = replay(records, entry=waits(0.009, 0.02)).first_divergence
    assert sooner is not None
    assert sooner.about == "timers"
    # When its time began depends on the machine; how much sooner the replay goes on does not.
    times = re.fullmatch(
        r"the live process waited until (\S+) s of its time, the replay until (\S+) s", sooner.why
    )
    assert times is not None
    assert round(float(times[1]) - float(times[2]), 6) == 0.001
    later = replay(records, entry=waits(0.01, 0.03)).first_divergence
    assert later is not None
    assert later.about == "timers"
    assert later.why == "the replay has set other timers than the live process"


def test_another_version_may_wait_for_other_times() -> None:
    records = by_version(recorded(waits(0.01, 0.02)), "0.0.1")
    assert replay(records, entry=waits(0.009, 0.02)).matched
