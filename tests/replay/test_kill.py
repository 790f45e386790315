"""The proof: a live controller with several workers, on real sockets, against a server that stalls, fails and
forgets, killed at a random moment, is replayed request by request, in other interpreters."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.replay.living import child, outcomes_met, replayed_by_command, until_written
from tests.replay.toys import ListJournal

from fathom.model.decision import Decision
from fathom.record.journal import read_journal
from fathom.record.replay import replay
from fathom.record.tape import ASK, reels

ENTRY = "tests.replay.adversary:begin"
ATTEMPTS = 5
HARDSHIPS = ("REPLY 500", "REPLY 0", "OPENED 410", "ENDED 0", "COLLECT 0")


def recorded_until_killed(directory: Path, *, writes: int, seed: int, workers: int) -> Path:
    """The tape of a controller that has made so many writes and some more; beside it, what the server got."""
    rng = random.Random(seed)
    with child("tests.replay.moody_server", str(seed), str(directory / "writes")) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        options = msgspec.json.encode({"workers": workers}).decode()
        tape = directory / "tape"
        with child("tests.replay.live", ENTRY, f"http://127.0.0.1:{port}", str(tape), options) as live:
            until_written(port, live, writes)
            time.sleep(rng.random() * 0.1)
            live.send_signal(signal.SIGKILL)
            live.wait()
    return tape


def with_every_hardship(directory: Path, *, writes: int, seed: int, workers: int) -> Path:
    """A tape that has each of them. Some come seldom, and on a busy machine not in every run."""
    for attempt in range(ATTEMPTS):
        place = directory / str(attempt)
        place.mkdir()
        tape = recorded_until_killed(place, writes=writes, seed=seed + attempt, workers=workers)
        (reel,) = reels(tape)
        met = outcomes_met(reel)
        if all(met[name] for name in HARDSHIPS):
            return tape
    raise AssertionError(f"not every hardship was met: {met}")


def prove(directory: Path, *, writes: int, seed: int, workers: int) -> None:
    tape = with_every_hardship(directory, writes=writes, seed=seed, workers=workers)
    (reel,) = reels(tape)

    trust = ("--trust", "tests.replay")
    results = [replayed_by_command(tape, hash_seed, *trust) for hash_seed in (0, seed + 1)]
    assert results[0] == results[1]
    assert results[0].matched
    assert results[0].writes >= writes

    journal = ListJournal()
    assert replay(reel.records(), journal=journal).matched
    live = [kept.decision for kept in read_journal(tape / "journal")]
    again = [said for said in journal.said if isinstance(said, Decision)]
    # The last input may have been under way when it was killed.
    assert again[: len(live)] == live
    assert 0 <= len(again) - len(live) <= workers

    sent = Counter((tape.parent / "writes").read_text().split())
    on_tape = Counter(f"{record.checksum:08x}" for record in reel.records() if record.kind == ASK)
    assert sent - on_tape == Counter(), "a request was sent that is not on the tape"


def test_a_killed_controller_is_replayed_request_by_request(tmp_path: Path) -> None:
    prove(tmp_path, writes=1500, seed=82219, workers=4)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(5))
def test_ten_thousand_decisions_are_replayed_without_a_difference(tmp_path: Path, seed: int) -> None:
    prove(tmp_path, writes=10_000, seed=seed, workers=2 + 2 * seed)
