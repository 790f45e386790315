"""Exploring: each scenario gets its share, rare situations get more, and results outlive the exploration."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.deep import first_few
from tests.sim.small import CONFIG_MAPS, config_map
from tests.sim.tickets import tickets

from fathom.sim.search.course import Course, EveryPair, SteeredPairs
from fathom.sim.search.explore import ExplorationFailed, Job, Limits, explore_course, explore_jobs
from fathom.sim.search.results_file import BadResults, ResultsFile, code_of
from fathom.sim.search.steering import Steering
from fathom.sim.search.summary import ExploreSummary, as_json, as_lines
from fathom.sim.world.fault_menu import LONG_S, Menu
from fathom.sim.world.faults import AnyFault, Crash, Skew
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Result, RunPlan, Scenario, Strategy, scenario
from fathom.sim.world.violation import Violation
from fathom.sim.world.world import World

Reaches = Mapping[str, Sequence[Sequence[str]]]  # What the runs of each scenario reach.
BOTH: tuple[Strategy, ...] = ("random", "lineage")
SOUND = msgspec.structs.replace(tickets, name="sound", checkers=tuple)


def result(name: str, seed: str, *, reached: Sequence[str] = (), broken: str = "") -> Result:
    return Result(
        plan=RunPlan(scenario=name, seed=seed, faults=(Crash(at_s=1.5, target="clerk", for_s=2.0),)),
        violation=Violation(broken, "it broke", 3.0, ("pods/default/web",)) if broken else None,
        trace="abc",
        inputs=7,
        sim_s=30.0,
        real_s=0.25,
        fired={"crash": 1},
        hits={"seldom": 2},
        reached=tuple(reached),
    )


# The share.


def dealt(steering: Steering, rounds: int, reaches: Reaches) -> Counter[str]:
    """Runs of each scenario, whose n-th run reaches the n-th entry, or the last one."""
    runs: Counter[str] = Counter()
    for _ in range(rounds):
        names = steering.deal(4)
        for name in names:
            steering.add(name, reaches[name][min(runs[name], len(reaches[name]) - 1)])
            runs[name] += 1
    return runs


def test_everyone_runs_once_before_anyone_runs_twice() -> None:
    assert Steering(["a", "b", "c"]).deal(3) == ["a", "b", "c"]


def test_a_scenario_that_reaches_new_states_gets_more_and_nobody_less_than_half_its_share() -> None:
    rare = [[f"crash: state {number}"] for number in range(200)]
    reaches: Reaches = {"dull": [["crash: idle"]], "duller": [["crash: idle"]], "rare": rare, "calm": [[]]}
    runs = dealt(Steering(list(reaches)), 40, reaches)
    assert sum(runs.values()) == 160
    assert runs["rare"] > 2 * runs["dull"]
    assert min(runs.values()) >= 160 // 4 // 2


def test_a_scenario_whose_states_repeat_loses_its_lead() -> None:
    rare = [[f"crash: state {number}"] for number in range(10)]
    reaches: Reaches = {"a": [*rare, *rare, ["crash: state 0"]], "b": [["stop: idle"]]}
    steering = Steering(list(reaches))
    early, late = dealt(steering, 5, reaches), dealt(steering, 200, reaches)
    assert early["a"] / 20 > late["a"] / 800


def test_each_seed_is_for_one_scenario_and_every_scenario_has_one() -> None:
    pairs = SteeredPairs(["a", "b", "c"], range(5, 7))
    assert (pairs.total, pairs.deal(), pairs.deal()) == (3, [("a", "5"), ("b", "6"), ("c", "5")], [])


def test_every_pair_is_dealt_in_rounds_and_none_is_lost() -> None:
    pairs = EveryPair(["a", "b"], range(30))
    rounds = [pairs.deal() for _ in range(6)]
    assert [len(pairs_of_round) for pairs_of_round in rounds] == [4, 16, 16, 16, 8, 0]
    assert [pair for pairs_of_round in rounds for pair in pairs_of_round] == [
        (name, str(seed)) for seed in range(30) for name in "ab"
    ]


def course(
    *scenarios: Scenario, seeds: range, done: Sequence[Result] = ()
) -> tuple[dict[str, Scenario], Course]:
    named = {entry.name: entry for entry in scenarios}
    return named, Course(named, EveryPair(list(named), seeds), seeds, strategies=BOTH, done=done)


def test_random_and_lineage_take_turns_and_held_says_how_often_each_ran() -> None:
    summary = explore_course(*course(tickets, SOUND, seeds=range(10)))
    assert as_json(summary)["held"]["sound"] == {
        "runs": 10,
        "held": 10,
        "strategies": {"random": 5, "lineage": 5},
    }
    assert summary.scenarios["tickets"].runs == 10
    assert summary.scenarios["tickets"].held < 10
    assert {violation.plan.strategy for violation in summary.violations} == {"random", "lineage"}
    assert "held: 2 scenarios, 10 runs each" in as_lines(summary)


def test_some_runs_of_every_scenario_set_wall_clocks_forward_and_back() -> None:
    named = {"sound": SOUND}
    runs: list[Result] = []
    planned = Course(named, EveryPair(["sound"], range(20)), range(20), strategies=BOTH, single=True)
    explore_course(named, planned, save=runs.append)
    steps = [
        [fault.skew_s for fault in run.plan.faults if isinstance(fault, Skew)]
        for run in runs
        if run.plan.faults and all(isinstance(fault, Skew) for fault in run.plan.faults)
    ]
    assert len(steps) == 3
    assert all(min(both) < 0 < max(both) for both in steps)


def test_some_runs_of_every_scenario_that_can_have_it_only_have_writes_that_fail_for_long() -> None:
    runs: list[Result] = []
    named = {"sound": SOUND}
    planned = Course(named, EveryPair(["sound"], range(20)), range(20), strategies=BOTH, single=True)
    explore_course(named, planned, save=runs.append)
    long = [run.plan.faults for run in runs if any(fault.for_s == LONG_S for fault in run.plan.faults)]
    assert len(long) == 2
    assert all(len(faults) == 1 for faults in long)


def test_held_names_scenarios_that_never_ran() -> None:
    summary = ExploreSummary()
    named, planned = course(SOUND, seeds=range(3))
    summary = explore_course({**named, "other": tickets}, planned)
    assert (summary.runs, summary.scenarios["other"].runs) == (3, 0)
    assert as_lines(summary)[2:] == [
        "everything held: 2 scenarios, 0 to 3 runs each",
        "  3 of 3 (2 random, 1 lineage)  sound",
        "  0 of 0                        other",
    ]


# A run that fails, and an exploration that fails.


class Faulty(Checker):
    name = "no maps"

    def commit(self, change: Seen) -> Found:
        if change.resource == "configmaps":
            raise ZeroDivisionError("the checker's own bug")
        return None


def test_a_checker_that_raises_ends_its_run_and_not_the_exploration() -> None:
    faulty = msgspec.structs.replace(tickets, name="faulty", checkers=lambda: (Faulty(),))
    summary = explore_course(*course(faulty, SOUND, seeds=range(6)))
    assert (summary.runs, summary.scenarios["sound"].held, summary.scenarios["faulty"].held) == (12, 6, 0)
    assert {violation.violation.invariant for violation in summary.violations if violation.violation} == {
        "no checker raises an exception"
    }


def no_faults_after_three(seed: str) -> Sequence[AnyFault]:
    if int(seed) > 3:
        raise LookupError(f"no faults for {seed}")
    return ()


async def writes_once(world: World) -> None:
    await world.apply(CONFIG_MAPS, config_map("c"))


def test_an_exploration_that_fails_has_the_results_until_then(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    ends_early = scenario(Menu(processes=("nobody",)), faults_of=no_faults_after_three)(writes_once)
    jobs = [Job("ends-early", str(seed)) for seed in range(9)]
    with ResultsFile(file, code="c") as results, pytest.raises(ExplorationFailed) as failed:
        explore_jobs({"ends-early": ends_early}, jobs, save=results.add)
    assert str(failed.value) == "LookupError: no faults for 4"
    assert failed.value.summary.runs == len(file.read_text().splitlines()) == 4


async def kills_its_process(world: World) -> None:
    """As when the kernel runs out of memory."""
    if world.rng.random() < 0.5:
        os._exit(9)
    await world.sleep(1)


@pytest.mark.live
def test_an_exploration_whose_worker_dies_has_the_results_until_then() -> None:
    deadly = scenario(Menu(processes=("nobody",), most=0), name="deadly")(kills_its_process)
    jobs = [Job("deadly", str(seed)) for seed in range(40)]
    with pytest.raises(ExplorationFailed, match="a worker process died") as failed:
        explore_jobs({"deadly": deadly}, jobs, workers=2)
    assert failed.value.summary.runs < 40


# The file of results.


def test_a_result_is_one_line_and_comes_back_whole(tmp_path: Path) -> None:
    file = tmp_path / "there" / "results.jsonl"
    held, broken = result("a", "1", reached=["crash: idle"]), result("b", "2", broken="one ticket each")
    with ResultsFile(file, code="c") as results:
        results.add(held)
        results.add(broken)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["scenario"], line["held"]) for line in lines] == [("a", True), ("b", False)]
    assert lines[1]["violation"]["invariant"] == "one ticket each"
    with ResultsFile(file, code="c") as results:
        assert (results.done, results.of_other_code) == ([held, broken], 0)


def test_results_of_other_code_are_history(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with ResultsFile(file, code="old") as results:
        results.add(result("a", "1"))
    with ResultsFile(file, code="new") as results:
        assert (results.done, results.of_other_code) == ([], 1)


def test_half_a_line_of_a_killed_exploration_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with ResultsFile(file, code="c") as results:
        results.add(result("a", "1"))
        results.add(result("a", "2"))
    file.write_bytes(file.read_bytes()[:-40])
    with ResultsFile(file, code="c") as results:
        assert results.done == [result("a", "1")]
        results.add(result("a", "3"))
    with ResultsFile(file, code="c") as results:
        assert results.done == [result("a", "1"), result("a", "3")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("my notes\n", "line 1, is no result of an exploration"),
        ("my notes", "line 1, is no result of an exploration"),
        ('{"at": 1}\n', "Expected `str`"),
        ('{"at": "today"}\n', "missing required field"),
    ],
)
def test_a_file_given_by_mistake_is_refused_and_stays_as_it_is(
    tmp_path: Path, content: str, why: str
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(content)
    with pytest.raises(BadResults, match=why):
        ResultsFile(file, code="c")
    assert file.read_text() == content


def test_two_explorations_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with (
        ResultsFile(file, code="c"),
        pytest.raises(BadResults, match=r"another exploration is writing to .*results\.jsonl"),
    ):
        ResultsFile(file, code="c")
    with ResultsFile(file, code="c") as again:
        assert again.done == []


def test_the_code_of_a_run_includes_its_patch_and_its_scenarios_file(tmp_path: Path) -> None:
    mine, patch = tmp_path / "mine.py", tmp_path / "patch.py"
    mine.write_text("x = 1")
    patch.write_text("")
    names = ["cluster", f"{mine}:greetings"]
    before = [code_of(["cluster"], None), code_of(names, None), code_of(names, patch)]
    assert len(set(before)) == 3
    mine.write_text("x = 2")
    assert [code_of(["cluster"], None), code_of(names, None)] == [before[0], code_of(names, None)]
    assert code_of(names, None) != before[1]


# Going on.


def plans(results: Sequence[Result], strategy: Strategy) -> list[RunPlan]:
    return [one.plan for one in results if one.plan.strategy == strategy]


@pytest.mark.parametrize("runs", first_few([5, 20, 1, 12], 2))
def test_a_second_call_goes_on_where_the_first_ended(tmp_path: Path, runs: int) -> None:
    whole: list[Result] = []
    explore_course(*course(tickets, SOUND, seeds=range(12)), save=whole.append)
    file = tmp_path / "results.jsonl"
    for limit in (runs, None):
        with ResultsFile(file, code="c") as results:
            summary = explore_course(
                *course(tickets, SOUND, seeds=range(12), done=results.done),
                limits=Limits(runs_max=limit),
                save=results.add,
            )
    with ResultsFile(file, code="c") as results:
        done = list(results.done)
    assert (summary.runs, summary.resumed, len(done)) == (24, runs, 24)
    assert [one.trace for one in done[:runs]] == [one.trace for one in whole[:runs]]
    assert len({(one.plan, one.plan.seed) for one in done}) == 24  # Nothing ran twice.
    missing = set(plans(whole, "random")) - set(plans(done, "random"))
    assert missing == set()


def test_runs_of_other_seeds_are_not_counted(tmp_path: Path) -> None:
    for number, seeds in enumerate((range(8), range(8, 16)), 1):
        with ResultsFile(tmp_path / "results.jsonl", code="c") as results:
            summary = explore_course(*course(SOUND, seeds=seeds, done=results.done), save=results.add)
        assert (summary.runs, summary.resumed) == (8, 0), number


def test_a_finished_exploration_has_nothing_left_to_do(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    for _ in range(2):
        with ResultsFile(file, code="c") as results:
            summary = explore_course(
                *course(tickets, SOUND, seeds=range(8), done=results.done), save=results.add
            )
    assert (summary.runs, summary.resumed, len(file.read_text().splitlines())) == (16, 16, 16)


def test_a_lineage_search_goes_on_without_repeating_a_run(tmp_path: Path) -> None:
    file, jobs = tmp_path / "results.jsonl", [Job("sound", str(seed), "lineage") for seed in range(3)]
    for limit in (4, 9):
        with ResultsFile(file, code="c") as results:
            summary = explore_jobs(
                {"sound": SOUND},
                jobs,
                limits=Limits(runs_max=limit),
                done=results.done,
                save=results.add,
            )
    with ResultsFile(file, code="c") as results:
        assert (summary.runs, summary.resumed, len(set(plans(results.done, "lineage")))) == (9, 4, 9)
