"""The eight links of a decision's path, for a scheduler's decision and for controllers': found by ids alone.

    desired -> queued -> read -> decided -> written -> observed -> status -> next actor

In a list of decisions the links are fields, and revisions of what was written; in a timeline they are fields
of the decision's entry, and edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from tests.deep import first_few

from fathom.ask.decisions import VisibleParts, decision_object
from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline.answer import answer
from fathom.explain.timeline.timeline import TimelineSpec
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.report.live_records import LiveRecords, recorded_decisions
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.scenario import ScenarioRun, plan_of, sweep

Document = dict[str, Any]

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
# Kubernetes knows no condition of a ReplicaSet that goes well: its status has counts and the generation.
WITHOUT_CONDITIONS = frozenset({"replicasets"})
# What it released is its own to remove, a minute later: it acts next itself.
ACTS_NEXT_ITSELF = frozenset({"repair-reservations"})


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


def whole_decisions(scenario: str, controller: str, resource: str) -> list[Document]:
    """The controller's decisions that have all links."""
    mine = [each for each in decisions(scenario) if each["spec"]["controller"] == controller]
    return [
        each
        for each in mine
        if has_own_links(each) and is_reported(each, mine) and next_decisions(each, resource, scenario)
    ]


def has_own_links(decision: Document) -> bool:
    spec, status = decision["spec"], decision["status"]
    seen = spec.get("seen", {}).values()
    return (
        bool(spec["subject"]["uid"])
        and spec["subject"].get("generation") == spec.get("observedGeneration", 0) > 0
        and spec.get("queuedMs", -1) >= 0
        and any(seen)
        and all(kind["revision"] > 0 and "ageMs" in kind for kind in seen)
        and (
            not spec["controller"].startswith("scheduler") or bool(spec.get("scores") or spec.get("filters"))
        )
        and status["result"] == "committed"
    )


def is_reported(decision: Document, mine: list[Document]) -> bool:
    """With a condition of its own, or with one that the same controller wrote about this generation."""
    subject = decision["spec"]["subject"]
    return decision["spec"]["controller"] in WITHOUT_CONDITIONS or any(
        other["spec"].get("condition") and other["spec"]["subject"] == subject for other in mine
    )


def next_decisions(decision: Document, resource: str, scenario: str) -> list[str]:
    """Decisions that were woken by what this one wrote: by object and revision."""
    controller = decision["spec"]["controller"]
    written = {
        (outcome["object"]["resource"], outcome["object"]["name"], outcome["revision"])
        for outcome in decision["status"]["outcomes"]
        if outcome.get("revision") and outcome["object"]["resource"] == resource
    }
    return [
        each["metadata"]["name"]
        for each in decisions(scenario)
        if (each["spec"]["controller"] != controller) is (controller not in ACTS_NEXT_ITSELF)
        and (cause := each["spec"]["cause"]).get("revision")
        and (cause["resource"], cause["name"], cause["revision"]) in written
    ]


@pytest.mark.parametrize(("scenario", "controller", "resource"), first_few(CASES, 2))
def test_a_list_of_decisions_has_all_eight_links(scenario: str, controller: str, resource: str) -> None:
    assert whole_decisions(scenario, controller, resource)


@pytest.mark.parametrize(("scenario", "controller", "resource"), CASES)
def test_a_timeline_has_all_eight_links(scenario: str, controller: str, resource: str) -> None:
    decision = whole_decisions(scenario, controller, resource)[0]
    shown = timeline(scenario, decision)
    entries = {entry["id"]: entry for entry in shown["entries"]}
    entry = entries[f"decision:{decision['metadata']['name']}"]
    path, spec = entry["path"], decision["spec"]
    assert entry["object"]["uid"] == spec["subject"]["uid"]
    assert entry["generation"] == path["observedGeneration"] == spec["observedGeneration"]
    assert path["queuedMs"] == spec["queuedMs"]
    read = {kind: seen["revision"] for kind, seen in path["read"].items()}
    assert read == {kind: seen["revision"] for kind, seen in spec["seen"].items()}
    assert path.get("scores", {}) == spec.get("scores", {})
    assert path.get("condition", "") == spec.get("condition", "")
    assert all(result["result"] == "committed" for result in path["results"])
    assert all(result["revision"] > 0 for result in path["results"])
    following = set(next_decisions(decision, resource, scenario))
    assert following & set(followers(entry["id"], resource, shown["edges"], entries)), "nobody acts next"


def followers(
    decision: str, resource: str, edges: list[Document], entries: dict[str, Document]
) -> Iterator[str]:
    """Ids of the decisions that follow from what the decision wrote."""
    for wrote in edges:
        is_write = wrote["cause"] == decision and wrote["kind"] == "wrote"
        if is_write and entries[wrote["effect"]]["object"]["resource"] == resource:
            for woke in edges:
                if woke["cause"] == wrote["effect"] and woke["kind"] == "woke":
                    yield entries[woke["effect"]]["ids"]["decision"]
