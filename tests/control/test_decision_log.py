"""Decisions that follow from no plan: in the journal before anything is sent, each with an id of its own."""

from __future__ import annotations

import pytest

from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown
from fathom.control.decision_log import DecisionLog, subject_of
from fathom.control.watches import NODE
from fathom.model import decision
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, Subject, Table

TIMER = WakeCause("timer", "every 5 s")


class Clock:
    def now_ns(self) -> int:
        return 7

    def monotonic_ns(self) -> int:
        return 7


class Kept:
    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.outcomes: list[decision.Outcome] = []

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def concluded(self, outcome: decision.Outcome) -> None:
        self.outcomes.append(outcome)

    def tabled(self, table: Table) -> None: ...


def test_a_decision_names_its_object_its_cause_and_the_write() -> None:
    kept = Kept()
    log = DecisionLog(kept, prefix="p", controller="agent", clock=Clock())
    subject = subject_of(NODE.resource, {"metadata": {"name": "n1", "uid": "u", "generation": 3}})
    id_ = log.decided("status", subject, cause=TIMER, why="it changed")
    assert kept.decisions == [
        Decision(
            id=id_,
            time_ns=7,
            controller="agent",
            subject=Subject("nodes", "", "n1", "u", 3),
            verdict="status",
            cause=TIMER,
            actions=("status nodes n1",),
            observed_generation=3,
            message="it changed",
        )
    ]


def test_logs_of_one_process_never_share_an_id() -> None:
    kept = Kept()
    log = DecisionLog(kept, prefix="p", controller="housekeeping", clock=Clock())
    logs = (log, log.of("a"), log.of("b"), log.of("a").of("c"))
    ids = [each.decided("create", Subject("pods", "", "x"), cause=TIMER, why="") for each in logs * 3]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("outcome", "result", "revision", "message"),
    [
        (Committed({"metadata": {"resourceVersion": "12"}}), "committed", 12, ""),
        (Conflict(None, "it changed"), "conflict", 0, "it changed"),
        (Rejected(403, "Forbidden", "not allowed"), "rejected", 0, "not allowed"),
        (Unknown("no answer"), "unknown", 0, "no answer"),
    ],
)
def test_the_outcome_names_result_revision_and_object(
    outcome: Outcome, result: str, revision: int, message: str
) -> None:
    kept, subject = Kept(), Subject("pods", "default", "web")
    DecisionLog(kept, prefix="p", controller="gateway", clock=Clock()).concluded("p-1", outcome, subject)
    [written] = kept.outcomes
    assert (written.id, written.result, written.revision) == ("p-1", result, revision)
    assert (written.object, written.message) == (subject, message)
