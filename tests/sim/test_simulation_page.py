"""docs/simulation.md says what there is, field by field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.sim.tickets import tickets

from fathom.sim.checkers import caches, everywhere, workloads
from fathom.sim.report import run_report
from fathom.sim.report.artifact import Artifact, artifact_of
from fathom.sim.report.replay import as_json as replay_json
from fathom.sim.report.replay import replay
from fathom.sim.search.explore import Job, explore
from fathom.sim.search.results_file import ResultLine
from fathom.sim.search.summary import ExploreSummary, as_json
from fathom.sim.search.zoo_run import Hunted
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.invariants import Checker, standard
from fathom.sim.world.scenario import plan_of
from fathom.sim.world.world import World

PAGE = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
FLAT = " ".join(PAGE.split())


def table(after: str) -> str:
    """The first columns of the next table."""
    rows = PAGE.partition(after)[2].partition("\n| --- | --- |\n")[2].partition("\n\n")[0]
    return "\n".join(row.split(" | ")[0] for row in rows.splitlines())


def words(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_-]+)`", text))


def test_every_fault_is_on_the_page() -> None:
    assert words(table("## Faults")) == {kind.__struct_config__.tag for kind in get_args(AnyFault)}


def test_every_public_name_of_the_world_is_on_the_page() -> None:
    public = {name for name in dir(World) if not name.startswith("_")}
    source = Path(str(World.__init__.__code__.co_filename)).read_text()
    made = set(re.findall(r"^        self\.([a-z]\w*)(?:: [^=]+)? = ", source, flags=re.M))
    named = set(re.findall(r"world\.([a-z_]+)", table("## The world")))
    assert named == public | made


def test_the_invariants_are_on_the_page() -> None:
    own = [one for one in vars(workloads).values() if isinstance(one, type) and issubclass(one, Checker)]
    names = [checker.name for checker in (*standard(), *everywhere())] + [checker.name for checker in own]
    names += [caches.BACK, caches.DEAD, caches.CHAIN]
    assert [name for name in names if name and name not in FLAT] == []


@pytest.fixture(scope="module")
def broken() -> tuple[run_report.RunReport, Any]:
    found = explore({"tickets": tickets}, [Job("tickets", str(n)) for n in range(50)], stop_at_first=True)
    return run_report.report(tickets, found.violations[0].plan)


def test_the_fields_of_a_run_are_on_the_page(broken: tuple[run_report.RunReport, Any]) -> None:
    said = run_report.as_json(broken[0], artifact="x")
    assert words(table("`fathom sim run`:")) == set(said)
    for part in ("violation", "timeline", "causes"):
        row = next(row for row in PAGE.splitlines() if row.startswith(f"| `{part}`"))
        value = said[part] if isinstance(said[part], dict) else said[part][0]
        assert set(value) <= words(row), part


def test_the_fields_of_exploring_are_on_the_page() -> None:
    assert words(table("`fathom sim explore`:")) == set(as_json(ExploreSummary()))


def test_the_fields_of_a_line_of_results_are_on_the_page() -> None:
    assert words(table("A line of `--results FILE`:")) == set(ResultLine.__struct_fields__)


def test_the_fields_of_a_file_and_of_its_replay_are_on_the_page(
    broken: tuple[run_report.RunReport, Any],
) -> None:
    artifact = artifact_of(*broken)
    assert words(table("## The file of a run")) == set(Artifact.__struct_fields__) - {"format"}
    assert words(table("`fathom replay` of a simulated run:")) == set(
        replay_json(artifact, *replay(artifact, tickets))
    )
    assert broken[0].result.plan == plan_of(tickets, broken[0].result.plan.seed)


def test_the_fields_of_the_zoo_are_on_the_page() -> None:
    row = next(row for row in PAGE.splitlines() if row.startswith("| `bugs`"))
    assert words(row) - {"bugs"} == set(Hunted.__struct_fields__)
