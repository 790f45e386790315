"""What is asked when bugs are hunted, and what is made of the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.sim.report.zoo_report import as_json, as_lines, gain
from fathom.sim.search.patches import Bug
from fathom.sim.search.zoo_run import Control, Effort, Exploration, Hunted, Visit, median, without


def hunted(name: str, **runs: int | None) -> Hunted:
    found = any(count is not None for count in runs.values())
    return Hunted(name, "A bug.", ("replicas",), found, dict(runs), "", "", 1.0, None)


def test_each_hunt_is_a_command_that_a_person_could_type() -> None:
    one = Exploration(
        scenarios=("replicas", "leaders"),
        strategy="pct",
        runs=40,
        out=Path("kept"),
        patch=Path("bug.py"),
        nth=2,
    )
    assert one.words() == [
        *("sim", "explore", "replicas,leaders", "--seeds", "2000..2040", "--runs", "40"),
        *("--strategy", "pct", "-j", "1", "--json", "--out", "kept", "--patch", "bug.py", "--first"),
    ]


def test_without_a_bug_stories_are_told_as_often_as_it_took_to_find_the_last_one_in_them() -> None:
    zoo = [hunted("a", random=3, lineage=None), hunted("b", random=9, lineage=2)]
    effort = Effort(runs_max=50, strategies=("random", "lineage"))
    assert [one.words() for one in without(zoo, effort)] == [
        [*("sim", "explore", "replicas", "--seeds", f"0..{runs}", "--runs", str(runs)),
         *("--strategy", strategy, "-j", "1", "--json")]
        for strategy, runs in (("random", 9), ("lineage", 50))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "middle"),
    [([3], 3), ([None], None), ([9, None, 2], 9), ([None, None, 2], None), ([4, 1], 4)],
)
def test_the_median_takes_what_was_not_found_for_more_than_any_number(
    counts: list[int | None], middle: int | None
) -> None:
    assert median(counts) == middle


def test_the_gain_is_a_geometric_mean_of_bugs_that_either_strategy_found() -> None:
    zoo = [
        hunted("a", random=16, lineage=1),
        hunted("b", random=None, lineage=25),
        hunted("c", random=2, lineage=None),
        hunted("d", random=None, lineage=None),
        hunted("e", random=7),
    ]
    assert gain(zoo, "random", runs_max=100) == round((16 * 4 * 0.02) ** (1 / 3), 2)
    assert gain(zoo[3:], "random", runs_max=100) is None


def test_what_there_is_when_it_is_interrupted_is_said() -> None:
    made = Visit(interrupted=True, seconds=61.0)
    made.note(hunted("b", random=3))
    bugs = [Bug(name, "A bug.", Path(f"{name}.py"), ("replicas",)) for name in ("a", "b")]
    said = as_json(made, bugs, Effort())
    assert said | {"bugs": []} == {
        "bugs": [],
        "found": 1,
        "of": 2,
        "runs_max": 100,
        "repeats": 1,
        "gain": {"random": None, "pct": None},
        "control": None,
        "seconds": 61.0,
        "interrupted": True,
    }
    assert said["bugs"] == [hunted("b", random=3)]
    assert list(as_lines(said)) == ["1 of 2 bugs found in 61 s, interrupted"]


def test_an_alarm_without_a_bug_is_shown() -> None:
    alarm = {
        "scenario": "replicas",
        "seed": "3",
        "strategy": "pct",
        "invariant": "one pod per slot",
        "message": "2",
    }
    made = Visit(control=Control(1200, [alarm]))
    assert list(as_lines(as_json(made, [Bug("a", "", Path("a.py"), ())], Effort())))[1:] == [
        "without any bug: 1,200 runs, 1 violations",
        "  replicas, seed 3, pct: one pod per slot: 2",
    ]
