"""The same proof with the real parts: the tutorial's controller on the controller kit, leading by a lease,
over HTTP to a real server, through a proxy that stalls, fails, hangs up and forgets. It is killed, or begins
anew.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.clients.running import Server, running
from tests.replay.living import ROOT, child, outcomes_met, replayed_by_command, until_written

from fathom.record.journal import read_journal
from fathom.record.replay import ReplayResult
from fathom.record.tape import ASK, reels

ENTRY = "fathom.control.process:begin"
CONTROLLER = "greeting:Greetings"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/greetings"
HARDSHIPS = ("REPLY 500", "REPLY 0", "OPENED 410", "ENDED 0")


@contextmanager
def controlled(
    directory: Path, seed: int, **options: Any
) -> Iterator[tuple[Server, int, subprocess.Popen[str]]]:
    """A server, the port of the proxy before it, and a controller that talks through it."""
    definition = yaml.safe_load((ROOT / "docs" / "examples" / "greeting.yaml").read_text())
    chosen = {"controllers": [CONTROLLER], "lease": "default/greetings", "workers": 4, **options}
    with running(directory) as server:
        server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        served = "/apis/example.dev/v1/namespaces/default/greetings"
        _until(lambda: server.request("GET", served))
        kubeconfig, writes = str(server.kubeconfig), str(directory / "writes")
        with child("tests.replay.moody_proxy", str(seed), kubeconfig, writes) as proxy:
            assert proxy.stdout is not None
            port = int(proxy.stdout.readline())
            url, tape = f"http://127.0.0.1:{port}", str(directory / "tape")
            with child("tests.replay.live", ENTRY, url, tape, msgspec.json.encode(chosen).decode()) as live:
                yield server, port, live


def _until(works: Any) -> None:
    for _ in range(100):
        try:
            works()
            return
        except AssertionError:
            time.sleep(0.05)
    works()


def replayed(tape: Path, hash_seed: int, *options: str) -> ReplayResult:
    return replayed_by_command(tape, hash_seed, "--trust", "greeting", *options)


def prove(directory: Path, *, writes: int, seed: int) -> None:
    with controlled(directory, seed) as (_, port, live):
        until_written(port, live, writes)
        time.sleep(random.Random(seed).random() * 0.1)
        live.send_signal(signal.SIGKILL)
        live.wait()
    tape = directory / "tape"
    (reel,) = reels(tape)
    met = outcomes_met(reel)
    assert [name for name in HARDSHIPS if not met[name]] == [], met

    results = [replayed(tape, hash_seed) for hash_seed in (0, seed + 1)]
    assert results[0] == results[1]
    assert (results[0].matched, results[0].birth.options["controllers"]) == (True, [CONTROLLER])
    assert results[0].writes >= writes
    assert len(read_journal(tape / "journal")) <= results[0].decisions

    sent = Counter((directory / "writes").read_text().splitlines())
    asked = Counter(record.payload.decode() for record in reel.records() if record.kind == ASK)
    assert sent - asked == Counter(), "a request was sent that is not on the tape"


def test_a_killed_process_of_controllers_is_replayed_request_by_request(tmp_path: Path) -> None:
    prove(tmp_path, writes=600, seed=82219)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_ten_thousand_decisions_of_the_kit_are_replayed_without_a_difference(
    tmp_path: Path, seed: int
) -> None:
    prove(tmp_path, writes=10_000, seed=seed)


def test_a_process_that_begins_anew_keeps_its_lease_and_every_run_is_replayed(tmp_path: Path) -> None:
    """The budget is small, so that it happens every few seconds."""
    budget = {"budget_bytes": 600_000, "age_s_min": 0.5}
    with controlled(tmp_path, 5, **budget) as (server, port, live):
        _until_runs(tmp_path / "tape", 3, live)
        until_written(port, live, 300)
        lease = server.request("GET", LEASE)
        live.send_signal(signal.SIGKILL)
        live.wait()
    kept = reels(tmp_path / "tape")
    assert len(kept) > 1
    results = [replayed(tmp_path / "tape", 7, "--run", str(reel.run)) for reel in kept]
    assert [result.matched for result in results] == [True] * len(kept)
    births = [result.birth for result in results]
    assert all(birth.predecessor for birth in births[1:])
    # Nobody waited for a lease to run out: each took over from the one that the host saw stop.
    assert lease["spec"]["leaseTransitions"] <= births[-1].incarnation


def _until_runs(tape: Path, count: int, live: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + 60
    while not tape.is_dir() or max((reel.run for reel in reels(tape)), default=0) < count:
        assert live.poll() is None, "the controller ended by itself"
        assert time.monotonic() < deadline_s, "it did not begin anew"
        time.sleep(0.1)
