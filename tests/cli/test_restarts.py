"""How soon the supervisor starts a part again that has ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.cli.test_up import CLUSTER, children, up

from fathom.supervise import RESTART, STEADY_S, restart_pause_s, short_lives

KILLS = 4


def pauses(lives: list[tuple[bool, float]]) -> list[float]:
    """Of a part that lived like this: (was it ready, for how many seconds it lived)."""
    failures, found = 0, []
    for was_ready, lived_s in lives:
        failures = short_lives(failures, was_ready=was_ready, lived_s=lived_s)
        found.append(restart_pause_s(failures))
    return found


def test_a_part_that_was_ready_is_started_again_at_once_however_often_it_is_killed() -> None:
    assert pauses([(True, 0.5)] * 20) == [RESTART.s_min] * 20


def test_a_part_that_never_gets_ready_is_started_ever_more_seldom() -> None:
    found = pauses([(False, 0.5)] * 20)
    assert found[:4] == [0.1, 0.2, 0.4, 0.8]
    assert found[-1] == RESTART.s_max


def test_a_life_that_was_ready_or_long_forgives_the_short_ones_before() -> None:
    short = [(False, 0.5)] * 5
    assert pauses([*short, (True, 0.5)])[-1] == RESTART.s_min
    assert pauses([*short, (False, STEADY_S)])[-1] == RESTART.s_min
    assert pauses([(True, 0.5), *short])[-1] == restart_pause_s(6)


def test_an_api_server_that_is_killed_again_and_again_is_back_at_once_each_time(tmp_path: Path) -> None:
    with up(tmp_path / "data", command=CLUSTER) as (process, _):
        assert process.stdout is not None
        for _ in range(KILLS):
            os.kill(children(process)["api"], signal.SIGKILL)
            said = ""
            while said != "api is ready again\n":
                said = process.stdout.readline()
                assert said, "the supervisor has ended"
                if said.startswith("api was killed"):
                    assert said == f"api was killed by SIGKILL; restarting it in {RESTART.s_min} s\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
