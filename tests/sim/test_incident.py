"""The lesson's worked example, as `fathom sim run duplicate-reservation --seed 82219` tells it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.putting_back import in_a_child

from fathom.sim.report.run_report import RunReport, report
from fathom.sim.scenarios.duplicate import duplicate_reservation
from fathom.sim.world.scenario import plan_of

BUG = "second_reservation"


def told(seed: str = "82219") -> RunReport:
    return report(duplicate_reservation, plan_of(duplicate_reservation, seed))[0]


def without_names(tale: tuple[str, ...]) -> list[str]:
    return [line for line in tale if not line.startswith("(")]


def test_the_code_as_it_is_meets_the_first_reservation() -> None:
    found = told()
    assert found.verdict == "holds"
    assert without_names(found.tale) == [
        "workload: risk-api replica-042 generation 42",
        "00:00 scheduler creates reservation res-a",
        "00:01 API write commits but client sees timeout",
        "00:02 scheduler leader restarts",
        "00:03 new leader reads stale reservation cache",
        "00:04 new leader retries and meets reservation res-a",
        "00:06 repair sees one reservation with same owner intent",
    ]


def test_the_story_is_the_same_under_other_seeds() -> None:
    assert without_names(told("1").tale) == without_names(told("2").tale) == without_names(told().tale)


@pytest.mark.live
def test_with_the_bug_in_place_the_incident_is_told_line_by_line() -> None:
    verdict, invariant, tale, culprits = in_a_child(BUG, _broken)
    assert (verdict, invariant) == ("broken", "at most one active reservation per intent and generation")
    assert tale == [
        "workload: risk-api replica-042 generation 42",
        "00:00 scheduler creates reservation res-a",
        "00:01 API write commits but client sees timeout",
        "00:02 scheduler leader restarts",
        "00:03 new leader reads stale reservation cache",
        "00:04 new leader retries and creates reservation res-b",
        "00:06 repair sees two reservations with same owner intent",
    ]
    assert culprits == ["late request", "lost reply", "stale read"]


def _broken() -> tuple[str, str, list[str], list[str]]:
    found = told()
    violation = found.result.violation
    culprits = [line.culprit for line in found.lines if line.culprit]
    name = violation.invariant if violation is not None else ""
    return found.verdict, name, without_names(found.tale), sorted(set(culprits))


def test_the_bug_is_a_patch_of_the_zoo() -> None:
    assert (Path("src/fathom/sim/zoo") / f"{BUG}.py").is_file()
