"""Exploring, shrinking, keeping and replaying, on a story with a known bug."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from tests.sim.small import CONFIG_MAPS, config_map, running
from tests.sim.tickets import draws_blindly, late_tickets, tickets

from fathom.client.api import Api
from fathom.client.events import decode_events
from fathom.client.outcomes import Committed
from fathom.control.ownership import owned
from fathom.explain.timeline.lines import as_text
from fathom.seams.process import Inside
from fathom.sim.report import artifact as kept
from fathom.sim.report.artifact_head import NotAnArtifact, is_artifact
from fathom.sim.report.kept_runs import must_hold
from fathom.sim.report.replay import replay
from fathom.sim.report.run_report import ReportedCause, as_lines, report
from fathom.sim.search.explore import Job, explore
from fathom.sim.search.seeds import everyone, in_turn
from fathom.sim.search.shrink import shrink
from fathom.sim.search.summary import as_json
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, LoseReply, Pause, Skew
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.scenario import Result, RunPlan, Scenario, plan_of, scenario, tell
from fathom.sim.world.world import World

STORIES = {tickets.name: tickets}


def plan(*faults: AnyFault, scale: int = 8) -> RunPlan:
    return RunPlan(scenario="tickets", seed="1", faults=faults, scale=scale)


LOST = LoseReply(at_s=0, target="clerk", match="POST ", times=3)


def test_a_scenario_is_named_and_described_by_its_story() -> None:
    assert (tickets.name, tickets.about) == ("tickets", "A clerk draws a ticket.")


@pytest.mark.live
def test_exploring_collects_what_breaks_and_is_the_same_on_two_cores() -> None:
    jobs = [Job("tickets", str(seed)) for seed in range(24)]
    alone, together = explore(STORIES, jobs), explore(STORIES, jobs, workers=2)
    assert 0 < len(alone.violations) < 24
    assert [result.plan for result in alone.violations] == [result.plan for result in together.violations]
    assert [result.trace for result in alone.violations] == [result.trace for result in together.violations]
    assert (alone.runs, alone.coverage, alone.hits) == (24, together.coverage, {"scale 8": 24})


def test_exploring_stops_at_the_first_violation_when_asked() -> None:
    jobs = [Job("tickets", str(seed)) for seed in range(100)]
    found = explore(STORIES, jobs, stop_at_first=True)
    assert len(found.violations) == 1
    assert found.runs == int(found.violations[0].plan.seed) + 1


def test_exploring_has_a_bound_on_its_runs() -> None:
    assert explore(STORIES, [Job("tickets", str(seed)) for seed in range(9)], runs_max=4).runs == 4


def test_what_exploring_says_is_complete() -> None:
    found = as_json(explore(STORIES, [Job("tickets", str(seed)) for seed in range(24)]))
    assert set(found) >= {"runs", "runs_per_s", "sim_ratio", "violations", "coverage"}
    assert found["coverage"]["sometimes"] == {"scale 8": 24}
    assert "lose-reply POST /api/v1/configmaps" in found["coverage"]["pairs"]
    assert "happening" in found["coverage"]["never"]
    assert found["violations"][0] | {"seed": "", "at_s": 0, "faults": 0, "message": ""} == {
        "scenario": "tickets",
        "seed": "",
        "strategy": "random",
        "invariant": "one ticket each",
        "message": "",
        "at_s": 0,
        "faults": 0,
    }


def test_lineage_strikes_first_what_the_good_outcome_rested_on() -> None:
    found = explore(STORIES, [Job("tickets", "1", "lineage")], stop_at_first=True)
    assert found.runs == 2  # The good run, and the reply without which it would not have been.
    assert [fault.kind for fault in found.violations[0].plan.faults] == ["lose-reply"]


@pytest.mark.live
def test_searches_of_one_seed_take_turns() -> None:
    sound = msgspec.structs.replace(tickets, name="sound", checkers=tuple)
    jobs = [Job("sound", "1", "lineage"), Job("tickets", "1", "lineage")]
    stories = {"sound": sound, **STORIES}
    alone = explore(stories, jobs, stop_at_first=True)
    assert alone.runs < 10  # And not after all that could be tried with the first.
    assert (
        explore(stories, jobs, stop_at_first=True, workers=2).violations[0].plan == alone.violations[0].plan
    )


def test_lineage_ends_when_there_is_nothing_left_to_take_away() -> None:
    async def nothing(inside: Inside) -> None:
        await asyncio.sleep(100)

    @scenario(Menu(processes=("idler",)))
    async def idle(world: World) -> None:
        """Nobody does anything."""
        world.process("idler", running(nothing))
        await world.sleep(5)

    assert explore({"idle": idle}, [Job("idle", "1", "lineage")]).runs == 1


def test_shrinking_leaves_what_is_necessary_and_as_little_of_it_as_will_do() -> None:
    faults = (
        Crash(at_s=25, target="clerk", for_s=1),
        LOST,
        Pause(at_s=20, target="clerk", for_s=1),
        HoldWatch(at_s=1, for_s=9),
        Skew(at_s=2, target="clerk"),
    )
    first = tell(tickets, plan(*faults))
    assert first.violation is not None
    found = shrink(first, lambda one: tell(tickets, one))
    assert found.result.plan == plan(msgspec.structs.replace(LOST, times=1), scale=1)
    assert found.result.violation is not None
    assert found.result.violation.invariant == "one ticket each"
    assert found.proven
    assert tell(tickets, plan(scale=1)).violation is None


def test_shrinking_does_not_pass_off_another_violation_as_the_same() -> None:
    told: list[RunPlan] = []

    def retell(one: RunPlan) -> Result:
        told.append(one)
        result = tell(tickets, one)
        other = (
            None if result.violation is None else msgspec.structs.replace(result.violation, invariant="other")
        )
        return msgspec.structs.replace(result, violation=other)

    first = tell(tickets, plan(LOST))
    assert shrink(first, retell).result == first
    assert told


def test_shrinking_keeps_within_its_runs() -> None:
    first = tell(tickets, plan(LOST, *(Skew(at_s=9 + n, target="clerk") for n in range(20))))
    found = shrink(first, lambda one: tell(tickets, one), runs_max=5)
    assert (found.runs, found.proven) == (5, False)


def test_shrinking_keeps_within_its_time() -> None:
    first = tell(tickets, plan(LOST, *(Skew(at_s=9 + n, target="clerk") for n in range(20))))
    found = shrink(first, lambda one: tell(tickets, one), seconds_max=0)
    assert (found.runs, found.proven, found.result) == (0, False, first)


def test_shrinking_brings_faults_closer_together_and_sooner() -> None:
    late = msgspec.structs.replace(LOST, at_s=16, times=1)
    first = tell(late_tickets, msgspec.structs.replace(plan(late, scale=1), scenario="late-tickets"))
    found = shrink(first, lambda one: tell(late_tickets, one))
    assert found.result.plan.faults == (msgspec.structs.replace(late, at_s=0.5),)


def test_there_is_nothing_to_shrink_in_a_run_that_held() -> None:
    with pytest.raises(ValueError, match="this run has no violation"):
        shrink(tell(tickets, plan()), lambda one: tell(tickets, one))


def write(folder: Path, *faults: AnyFault) -> Path:
    told, scenario_run = report(tickets, plan(*faults))
    file = folder / "run.json"
    kept.write(kept.artifact_of(told, scenario_run), file)
    return file


def test_a_kept_run_is_one_small_file_that_says_everything(tmp_path: Path) -> None:
    file = write(tmp_path, LOST)
    assert file.stat().st_size < kept.BYTES_MAX
    artifact = kept.read(file)
    assert is_artifact(file)
    assert artifact.plan == plan(LOST)
    assert artifact.logged == artifact.inputs == len(kept.log_of(artifact))
    assert artifact.configuration.servers == 1
    assert "one ticket each" in artifact.configuration.checkers
    assert artifact.configuration.processes["clerk"] == {"server": "api-1", "options": {}}
    assert set(artifact.versions.dependencies) >= {"msgspec", "immutables", "numpy"}
    assert {"faults", "workload", "latency/clerk>api-1", "clerk/1", "api-1/1"} <= set(artifact.streams)
    assert artifact.objects
    assert [line.what for line in artifact.timeline][-1].startswith(
        "one ticket each: clerk drew ticket ticket-1"
    )


def test_a_kept_run_is_seen_again_input_for_input(tmp_path: Path) -> None:
    replayed, _ = replay(kept.read(write(tmp_path, LOST)), tickets)
    assert replayed.reproduced
    assert (replayed.divergence, replayed.warnings) == (None, ())


def test_a_replay_names_the_first_input_that_differs(tmp_path: Path) -> None:
    async def hesitates(inside: Inside) -> None:
        await asyncio.sleep(0.25)
        await draws_blindly(inside)

    @scenario(tickets.menu, name="tickets", checkers=tickets.checkers, scale=8)
    async def changed(world: World) -> None:
        world.process("clerk", running(hesitates))
        await world.sleep(30)

    artifact = kept.read(write(tmp_path, LOST))
    replayed, _ = replay(artifact, changed)
    assert not replayed.reproduced
    began = next(n for n, entry in enumerate(kept.log_of(artifact)) if entry[1] == "clerk")
    # The clerk's start is the same; its request comes later.
    assert replayed.divergence is not None
    assert replayed.divergence.input == began + 2
    assert str(replayed.divergence).startswith(f"input {began + 2}: recorded an arriving message")


def test_a_replay_notices_content_that_differs(tmp_path: Path) -> None:
    artifact = kept.read(write(tmp_path))
    log = kept.log_of(artifact)
    replies = [n for n, entry in enumerate(log) if entry[1] == "clerk" and entry[2] == 1]
    entry = log[replies[0]]
    log[replies[0]] = (*entry[:4], entry[4] ^ 1)
    forged = msgspec.structs.replace(artifact, log=kept._pack(log), trace="another")
    replayed, _ = replay(forged, tickets)
    assert replayed.divergence is not None
    assert replayed.divergence.input == replies[0] + 1
    what = "recorded the reply to POST /api/v1/namespaces/default/configmaps for clerk at 0."
    assert replayed.divergence.what.startswith(what)
    assert "now the same with other content" in replayed.divergence.what


def test_a_replay_says_when_versions_differ(tmp_path: Path) -> None:
    artifact = kept.read(write(tmp_path, LOST))
    then = msgspec.structs.replace(artifact.versions, python="2.7", dependencies={"msgspec": "0.0"})
    older = msgspec.structs.replace(then, fathom="0.0.1")
    other = msgspec.structs.replace(then, code="before")
    for was, first in ((older, "recorded with fathom 0.0.1"), (other, "fathom's code has changed since")):
        replayed, _ = replay(msgspec.structs.replace(artifact, versions=was), tickets)
        assert replayed.reproduced
        fathoms, python, dependency = replayed.warnings
        assert fathoms.startswith(first)
        assert python.startswith("recorded with Python 2.7, this is 3.")
        assert dependency.startswith("recorded with msgspec 0.0, here is ")


def test_where_the_log_ends_early_a_difference_is_still_narrowed_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept, "LOG_BYTES_MAX", 400)
    artifact = kept.read(write(tmp_path, LOST))
    forged = msgspec.structs.replace(artifact, sections=(1,), trace="another")
    replayed, _ = replay(forged, tickets)
    assert replayed.divergence is not None
    assert replayed.divergence.input == artifact.logged + 1
    assert "the run was too long" in replayed.divergence.what


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not a recorded run"),
        ('{"format": "fathom.dev/sim-run/999"}', "this fathom reads"),
        ("[1]", "is not a recorded run"),
        ('{"format": "fathom.dev/sim-run/1"}', "is not a recorded run"),
    ],
)
def test_a_file_that_is_no_kept_run_is_refused_in_a_line(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(NotAnArtifact, match=why):
        kept.read(file)


def test_a_log_too_long_for_the_file_is_kept_as_far_as_it_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept, "LOG_BYTES_MAX", 100)
    artifact = kept.read(write(tmp_path, LOST))
    assert 0 < artifact.logged < artifact.inputs
    assert len(artifact.log) <= 100
    assert replay(artifact, tickets)[0].reproduced


LOST_WORDS = (
    "POST /api/v1/namespaces/default/configmaps: "
    "api-1 has carried it out, but the reply is lost: the sender cannot know"
)


def test_a_report_tells_the_story_with_its_causes() -> None:
    told, _ = report(tickets, plan(LOST))
    lines = [re.sub(r"revision \d+", "revision N", line[16:].strip()) for line in as_text(told.lines)]
    assert lines == [
        "clerk     creates configmap ticket-0, at revision N",
        f"!! clerk  {LOST_WORDS}  (because of 1)",
        "clerk     creates configmap ticket-1, at revision N",
        "BROKEN    one ticket each: clerk drew ticket ticket-1  (because of 3)",
    ]
    assert told.causes == (ReportedCause(2, "lost reply", "clerk", LOST_WORDS),)
    text = "\n".join(as_lines(told, artifact="x.json"))
    assert "tickets, seed 1: BROKEN at" in text
    assert "lose-reply POST /api/v1/configmaps" in text
    assert text.endswith("replay:  fathom replay x.json")


def test_the_command_to_run_it_again_is_given_where_the_seed_is_enough() -> None:
    by_seed, _ = report(tickets, plan_of(tickets, "3", "pct"), patch="bug.py")
    by_file, _ = report(tickets, plan(LOST))
    assert by_seed.rerun == "fathom sim run tickets --seed 3 --strategy pct --patch bug.py"
    assert by_file.rerun == ""


def test_scripted_faults_are_the_storys_own() -> None:
    scripted: Scenario = msgspec.structs.replace(tickets, scripted=(LOST,))
    assert plan_of(scripted, "99").faults == (LOST,)


def test_a_report_of_one_object_tells_of_its_family() -> None:
    """A checker that says no more than which object is wrong is shown the owner and the siblings too."""

    class NoThird(Checker):
        name = "no third child"

        def commit(self, change: Seen) -> Found:
            return "there it is" if change.key.name == "child-3" else None

    async def has_children(inside: Inside) -> None:
        api = Api(inside.seam)
        owner = await api.create(CONFIG_MAPS, "default", config_map("owner"))
        assert isinstance(owner, Committed)
        await api.create(CONFIG_MAPS, "default", config_map("stranger"))
        for number in (1, 2, 3):
            child = config_map(f"child-{number}")
            await api.create(CONFIG_MAPS, "default", owned(child, owner.obj))

    @scenario(Menu(processes=("parent",)), checkers=lambda: (NoThird(),))
    async def children(world: World) -> None:
        world.process("parent", running(has_children))
        await world.sleep(5)

    told, _ = report(children, RunPlan(scenario="children", seed="1"))
    names = [re.sub(r", at revision.*", "", line.what) for line in told.lines]
    assert names[:-1] == [
        "creates configmap owner",
        *(f"creates configmap child-{number}" for number in (1, 2, 3)),
    ]


def test_a_report_names_the_stale_read_and_what_kept_the_news_away() -> None:
    async def adds_what_it_misses(inside: Inside) -> None:
        """Twice, with the same old list in its head, of which it hears by a watch."""
        api, names = Api(inside.seam), []
        stream = await api.watch(CONFIG_MAPS, "default", resourceVersion="0")

        async def follow() -> None:
            while (chunks := await stream.read()) is not None:
                names.extend(decode_events(chunks))

        inside.domain.create_task(follow())
        await asyncio.sleep(5)
        await api.create(CONFIG_MAPS, "default", config_map(f"late-{len(names)}"))

    class NoLate(Checker):
        name = "nobody is late"

        def commit(self, change: Seen) -> Found:
            found = change.key.name.startswith("late")
            return Finding("late", ("configmaps/default/first", change.path)) if found else None

    @scenario(Menu(processes=("reader",)), checkers=lambda: (NoLate(),))
    async def late(world: World) -> None:
        world.process("reader", running(adds_what_it_misses))
        await world.sleep(1)
        await world.apply(CONFIG_MAPS, config_map("early"))
        await world.sleep(1)
        await world.apply(CONFIG_MAPS, config_map("first"))
        await world.sleep(10)

    held = HoldWatch(at_s=1.5, target="reader", match="/configmaps", for_s=20)
    told, _ = report(late, RunPlan(scenario="late", seed="1", faults=(held,)))
    whats = [re.sub(r"revision \d+", "revision N", line.what) for line in told.lines]
    assert whats == [
        "creates configmap first, at revision N",
        "its watch of configmaps is delayed",
        "acts on configmaps as of revision N: it has not seen configmap first",
        "creates configmap late-1, at revision N",
        "nobody is late: late",
    ]
    assert [line.because for line in told.lines] == [(), (), (1, 2), (3,), (4,)]
    assert [(one.kind, one.line) for one in told.causes] == [("stale read", 3)]


def test_a_run_that_must_hold_and_does_not_leaves_its_file_and_its_command(tmp_path: Path) -> None:
    assert must_hold(tickets, plan(), out=tmp_path).violation is None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AssertionError) as caught:
        must_hold(tickets, plan(LOST), out=tmp_path)
    file = tmp_path / "tickets-1-random.json"
    assert str(caught.value).endswith(f"replay:  fathom replay {file}")
    assert kept.read(file).plan == plan(LOST)


def test_of_all_stories_each_seed_is_for_one_in_turn_and_nobody_is_left_out() -> None:
    assert in_turn(["a", "b"], range(4)) == [("a", "0"), ("b", "1"), ("a", "2"), ("b", "3")]
    assert in_turn(["a", "b", "c"], range(5, 7)) == [("a", "5"), ("b", "6"), ("c", "5")]
    assert everyone(["a", "b"], range(2)) == [("a", "0"), ("b", "0"), ("a", "1"), ("b", "1")]
