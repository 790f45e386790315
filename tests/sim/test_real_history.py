"""The simulator's checkers, asked about the history of a real run: planted histories of which one thing is
wrong, and one of which nothing is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from fathom.model.audit import AuditEntry
from fathom.model.body import Body
from fathom.model.decision import Decision, KeptDecision, Outcome, SeenVersions, Subject
from fathom.model.objects import Obj
from fathom.sim.checkers import at_home
from fathom.sim.real_history import NOT_JUDGED, AuditIndex, RealHistory, seen_in
from fathom.sim.world.invariants import standard
from fathom.store.protocol import Change, Entry

RELIABILITY = Path(__file__).parents[2] / "docs" / "reliability.md"
POD = "pods/default/web-1"
Step = tuple[str, Obj | None]  # Path, and the object as this commit leaves it.


def pod(node: str = "", *, uid: str = "u1", **status: object) -> Obj:
    spec: Obj = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    meta = {"name": "web-1", "namespace": "default", "uid": uid}
    return {"metadata": meta, "spec": spec | ({"nodeName": node} if node else {}), "status": status}


def node(name: str, **spec: object) -> Obj:
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": ready}
    return {"metadata": {"name": name, "uid": name}, "spec": spec, "status": status}


def deployment(generation: int, **status: object) -> Obj:
    meta = {"name": "web", "namespace": "default", "uid": "d", "generation": generation}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    return {"metadata": meta, "spec": {"replicas": generation, "template": template}, "status": status}


def fence(epoch: int) -> Obj:
    return {"epoch": epoch, "holder": f"scheduler_{epoch}"}


NODES: list[Step] = [("nodes/n1", node("n1")), ("nodes/n2", node("n2"))]
BOUND: list[Step] = [*NODES, (POD, pod()), (POD, pod("n1"))]


def changes(steps: Iterable[Step]) -> list[Change]:
    """A commit for each step; revisions count from 1."""
    entries: dict[str, Entry] = {}
    made = []
    for revision, (path, obj) in enumerate(steps, 1):
        key, previous = f"/registry/{path}", entries.pop(path, None)
        if obj is not None:
            created = revision if previous is None else previous.created
            entries[path] = Entry(key, Body(obj=obj), revision, created)
        made.append(Change(key, revision, entries.get(path), previous))
    return made


def audited(revision: int, *, actor: str, decision: str = "") -> AuditEntry:
    """The scheduler's write of the pod."""
    return AuditEntry(
        id="1",
        time="2026-01-01T00:00:00Z",
        user="system:fathom",
        verb="update",
        code=200,
        resource="pods",
        namespace="default",
        name="web-1",
        revision=revision,
        actor=actor,
        decision=decision,
    )


def judged(steps: Iterable[Step], *entries: AuditEntry) -> RealHistory:
    history, audit = RealHistory(), AuditIndex()
    for entry in entries:
        audit.add(entry)
    for change in changes(steps):
        history.commit(seen_in(change, audit.of(change), float(change.revision)))
    return history


def broken(history: RealHistory) -> list[tuple[str, str]]:
    return [(violation.invariant, violation.message) for violation in history.violations]


def test_a_history_in_which_nothing_is_wrong_breaks_no_invariant() -> None:
    history = judged([*NODES, (POD, pod()), (POD, pod(phase="Pending")), (POD, None)])
    assert (broken(history), history.wrong_at_rest(at_s=9.0), history.commits) == ([], [], 5)


@pytest.mark.parametrize(
    ("steps", "invariant", "message"),
    [
        ([*BOUND, (POD, pod("n2"))], "one binding per pod", "web-1 was bound to n1 and is now bound to n2"),
        (
            [("nodes/n1", node("n1", unschedulable=True)), (POD, pod()), (POD, pod("n1"))],
            "a pod is bound only where it may run",
            "the pod was bound to n1, which is cordoned",
        ),
        (
            [*BOUND, (POD, pod("n1", uid="u2"))],
            "an object keeps its identity",
            f"{POD} changed its UID from u1 to u2 without a deletion",
        ),
        (
            [("fences.fathom.dev/kube-system/scheduler", fence(epoch)) for epoch in (1, 3)],
            "no write behind a lost fence",
            "the fence of kube-system/scheduler went from epoch 1 to 3",
        ),
        (
            [("deployments.apps/default/web", deployment(number)) for number in (2, 1)],
            "generations only grow",
            "deployments.apps/default/web went from generation 2 to 1",
        ),
        (
            [("deployments.apps/default/web", deployment(1, observedGeneration=2))],
            "conditions name the generation they observed",
            "deployments.apps/default/web is at generation 1, but its status names 2",
        ),
    ],
)
def test_a_planted_history_breaks_its_invariant(steps: list[Step], invariant: str, message: str) -> None:
    history = judged(steps)
    assert (invariant, message) in broken(history)
    assert all(violation.objects for violation in history.violations)


def test_a_node_that_is_given_more_than_it_has_is_found() -> None:
    steps: list[Step] = [*NODES]
    for number in range(5):
        steps.append((f"pods/default/web-{number}", pod("n1", uid=f"u{number}")))
    history = judged([*steps, *NODES])  # A commit is judged when the next one begins.
    assert ("no node or quota over its limit", "n1 has cpu 4000 allocatable, but 5000 is in use") in broken(
        history
    )


def test_what_is_still_wrong_when_all_is_at_rest_is_found() -> None:
    history = judged([*NODES, ("deployments.apps/default/web", deployment(1))])
    assert broken(history) == []
    assert {violation.invariant for violation in history.wrong_at_rest(at_s=5.0)} >= {
        "every rollout completes",
        "every workload has its replicas",
    }


# Who wrote it, and by which decision.


def test_a_write_of_ours_without_its_decision_is_found_where_the_audit_log_has_it() -> None:
    assert broken(judged(BOUND)) == []
    history = judged(BOUND, audited(4, actor="scheduler"))
    assert broken(history) == [
        ("every write has its decision", f"scheduler wrote {POD} without naming its decision")
    ]


def test_a_decision_that_no_journal_has_is_found() -> None:
    history = judged(BOUND, audited(4, actor="scheduler", decision="d1"))
    history.journals_are_read(at_s=5.0)
    assert broken(history) == [
        ("every write has its decision", "a write names decision d1, which no journal has")
    ]
    history = judged(BOUND, audited(4, actor="scheduler", decision="d1"))
    history.read_journal("scheduler", [KeptDecision(decision(), ())], at_s=5.0)
    history.journals_are_read(at_s=5.0)
    assert broken(history) == []


def test_where_a_journal_has_gaps_a_decision_may_be_missing() -> None:
    history = judged(BOUND, audited(4, actor="scheduler", decision="d1"))
    history.journals_have_gaps()
    history.journals_are_read(at_s=5.0)
    assert broken(history) == []


def decision(*, uid: str = "u1", seen: int = 3) -> Decision:
    subject = Subject(resource="pods", namespace="default", name="web-1", uid=uid)
    versions = {"Pod": SeenVersions(revision=seen)}
    return Decision(
        id="d1", time_ns=0, controller="scheduler", subject=subject, verdict="bind", seen=versions
    )


@pytest.mark.parametrize(
    ("made", "revision", "message"),
    [
        (decision(uid="u9"), 4, "scheduler about {}: the view did not have it as uid u9, generation 0"),
        (decision(seen=9), 4, "scheduler about {}: it saw Pod at 9, but the store is at 4"),
        (decision(), 9, "the decision d1 was committed, but the store never had {} with uid u1 at 9"),
        (decision(), 4, ""),
    ],
)
def test_a_journal_that_does_not_match_the_store_is_found(
    made: Decision, revision: int, message: str
) -> None:
    history = judged(BOUND)
    outcome = Outcome(id="d1", time_ns=0, result="committed", revision=revision, object=decision().subject)
    history.read_journal("scheduler-1", [KeptDecision(made, (outcome,))], at_s=5.0)
    expected = [("a decision's records are true", f"scheduler-1: {message.format(POD)}")] if message else []
    assert broken(history) == expected


# Which checkers judge, and which cannot.


def test_every_checker_of_our_own_scenarios_judges_or_is_listed_with_what_it_lacks() -> None:
    ours = {checker.name for checker in (*standard(), *at_home())}
    judges = set(RealHistory().judged)
    assert judges & NOT_JUDGED.keys() == set()
    assert ours <= judges | NOT_JUDGED.keys()
    assert NOT_JUDGED.keys() <= ours


def test_the_page_about_reliability_lists_them_all() -> None:
    text = RELIABILITY.read_text()
    assert [name for name in (*RealHistory().judged, *NOT_JUDGED) if f"| {name} |" not in text] == []
