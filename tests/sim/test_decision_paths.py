"""The eight links of a decision's path, for a scheduler's decision and for controllers': found by ids alone,
in the records of simulated worlds (tests/decision_links.py)."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest
from tests.decision_links import Document, assert_in_timeline, whole_decisions
from tests.deep import first_few

from fathom.ask.decisions import VisibleParts, decision_object
from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline.answer import answer
from fathom.explain.timeline.timeline import TimelineSpec
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.report.live_records import LiveRecords, recorded_decisions
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.scenario import ScenarioRun, plan_of, sweep

WHOLE = TimelineSpec(fold=False, entries_max=1_000_000)
# Scenario, who decides, and what it writes when it acts.
ROLLBACK, RESERVATIONS = "pending-after-rollback", "reservations"
CASES = [
    (ROLLBACK, "scheduler-1", "pods"),
    (ROLLBACK, "deployments", "replicasets.apps"),
    (ROLLBACK, "replicasets", "pods"),
    (ROLLBACK, "autoscaling", "deployments.apps"),
    (RESERVATIONS, "repair-reservations", "reservations.fathom.dev"),
]


@cache
def chronicle(name: str) -> Chronicle:
    told, scenario = Chronicle(), SCENARIOS[name]
    result = ScenarioRun(scenario, plan_of(scenario, "1"), chronicle=told).run()
    sweep()
    assert result.violation is None, result.violation
    return told


@cache
def decisions(scenario: str) -> list[Document]:
    """As `kubectl get decisions -o json` prints them."""
    return [decision_object(record, VisibleParts()) for record in recorded_decisions(chronicle(scenario))]


@cache
def records(scenario: str) -> LiveRecords:
    return LiveRecords(chronicle(scenario))


def timeline(scenario: str, decision: Document) -> Document:
    """Of the decision's subject, as `fathom timeline KIND/NAME -o json` prints it."""
    about = decision["spec"]["subject"]
    subject = ObjectRef(about["resource"], about["namespace"], about["name"], about["uid"])
    shown: Document = msgspec.json.decode(
        msgspec.json.encode(answer(records(scenario).evidence(subject), WHOLE))
    )
    return shown


@pytest.mark.parametrize(("scenario", "controller", "resource"), first_few(CASES, 2))
def test_a_list_of_decisions_has_all_eight_links(scenario: str, controller: str, resource: str) -> None:
    assert whole_decisions(decisions(scenario), controller, resource)


@pytest.mark.parametrize(("scenario", "controller", "resource"), CASES)
def test_a_timeline_has_all_eight_links(scenario: str, controller: str, resource: str) -> None:
    listed = decisions(scenario)
    decision = whole_decisions(listed, controller, resource)[0]
    assert_in_timeline(decision, resource, timeline(scenario, decision), listed)
