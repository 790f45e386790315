"""Explanations in simulated worlds: the checker notices an answer that hides trouble; the story can fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.deep import first_few

from fathom.explain.evidence import Evidence
from fathom.explain.questions import why
from fathom.explain.why.answer import Explanation
from fathom.sim.checkers import explanations
from fathom.sim.scenarios.questions import pending_after_rollback, stuck_workloads_are_explained
from fathom.sim.world.scenario import Result, Scenario, plan_of, tell


def told(scenario: Scenario, seed: str = "1", **changes: Any) -> Result:
    plan = msgspec.structs.replace(plan_of(scenario, seed), **changes)
    return tell(scenario, plan)


@pytest.mark.parametrize("resource", first_few([*explanations.TROUBLED], 2))
def test_an_answer_that_hides_trouble_is_a_violation(resource: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_is_well(evidence: Evidence) -> Explanation:
        answer = why(evidence)
        if evidence.subject.resource != resource:
            return answer
        return msgspec.structs.replace(answer, as_wanted=True)

    monkeypatch.setattr(explanations, "why", all_is_well)
    violation = told(stuck_workloads_are_explained, faults=()).violation
    assert violation is not None
    assert violation.invariant == explanations.NoTroubleIsHidden.name
    assert violation.message.startswith(f"{resource}/")


def test_an_answer_without_a_cause_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def speechless(evidence: Evidence) -> Explanation:
        return msgspec.structs.replace(why(evidence), cause="")

    monkeypatch.setattr(explanations, "why", speechless)
    violation = told(stuck_workloads_are_explained, faults=()).violation
    assert violation is not None
    assert "has no cause" in violation.message


def test_the_story_fails_when_the_quota_watch_is_not_held() -> None:
    violation = told(pending_after_rollback, faults=()).violation
    assert violation is not None
    assert violation.invariant == "the scenario's own assertion"


def test_every_kind_of_trouble_is_explained_in_some_settled_world() -> None:
    hits = told(stuck_workloads_are_explained, faults=()).hits
    kinds = {hit.split()[1] for hit in hits if hit.endswith("is explained")}
    assert kinds == {*explanations.TROUBLED}
