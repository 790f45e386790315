"""Judges of steps, of rollouts and of runs, are not silent, and not too strict."""

from __future__ import annotations

import pytest

from fathom.kinds.runbook_run import STEP_ANNOTATION
from fathom.model.objects import Key, Obj
from fathom.sim.checkers.policy_rollouts import RolloutStepsLast
from fathom.sim.checkers.undone_steps import RUNS, UndoingIsExact
from fathom.sim.world.invariants import Seen

ROLLOUTS = "policyrollouts.fathom.dev"
DEPLOYMENTS = "deployments.apps"


def seen(
    resource: str, old: Obj | None, new: Obj | None, *, at_s: float = 0.0, agent: str = "kubectl"
) -> Seen:
    key = Key("", "r") if resource == ROLLOUTS else Key("default", "r")
    headers = (("user-agent", agent),)
    return Seen(
        resource=resource, key=key, revision=1, old=old, new=new, at_s=at_s, by="a", incarnation=1,
        headers=headers,
    )  # fmt: skip


def rollout(step: int, *, baked: int = 0, generation: int = 1, phase: str = "Canary") -> Obj:
    steps = [{"percent": 10, "hold": "20s"}, {"percent": 50, "hold": "20s"}]
    status = {"observedGeneration": generation, "phase": phase, "step": step, "bakedSeconds": baked}
    return {"metadata": {"name": "r", "uid": "u"}, "spec": {"to": "v5", "steps": steps}, "status": status}


@pytest.mark.parametrize(
    ("next_", "at_s", "wrong"),
    [
        (rollout(1), 21.0, None),
        (rollout(1), 15.0, "step 0 ended after 15.0 of 20 s"),
        (rollout(1, baked=10), 21.0, "r counts 10 s for a step that began 0 s ago"),
        (rollout(0, baked=10), 11.0, None),
        (rollout(0, generation=2), 5.0, None),
        (rollout(0, baked=5, generation=2), 6.0, "r counts 5 s for a step that began 0 s ago"),
        (rollout(0, phase="RolledBack"), 5.0, None),
    ],
)
def test_a_step_of_a_rollout_lasts(next_: Obj, at_s: float, wrong: str | None) -> None:
    checker = RolloutStepsLast()
    assert checker.commit(seen(ROLLOUTS, None, rollout(0))) is None
    assert checker.commit(seen(ROLLOUTS, rollout(0), next_, at_s=at_s)) == wrong


def web(replicas: int, *identities: str, **labels: str) -> Obj:
    meta = {"name": "r", "uid": "w", "labels": labels, "annotations": {STEP_ANNOTATION: ",".join(identities)}}
    return {"metadata": meta, "spec": {"replicas": replicas}}


def run(state: str) -> Obj:
    content = {"steps": [{"id": "grow", "compensation": {"restore": True}}]}
    status = {"steps": [{"id": "grow", "state": state}]}
    return {"metadata": {"name": "r", "uid": "u"}, "spec": {"content": content}, "status": status}


DONE, UNDO = "u/grow", "u/grow/undo"
STEP, UNDOING = "fathom runbook r grow", "fathom runbook r grow/undo"


@pytest.mark.parametrize(
    ("now", "undone", "wrong"),
    [
        (web(3, DONE), web(1, DONE, UNDO), None),
        (
            web(3, DONE),
            web(2, DONE, UNDO),
            "u/grow/undo set spec.replicas to 2, and before the step it was 1",
        ),
        (web(5, DONE), web(5, DONE, UNDO), None),
        (
            web(5, DONE),
            web(1, DONE, UNDO),
            "u/grow/undo set spec.replicas from 5 to 1; the step had set it to 3",
        ),
        (
            web(3, DONE, by="ann"),
            web(1, DONE, UNDO),
            "u/grow/undo set metadata.labels.by from ann to None; the step had set it to None",
        ),
    ],
)
def test_an_undo_takes_back_the_step_and_nothing_else(now: Obj, undone: Obj, wrong: str | None) -> None:
    checker = UndoingIsExact()
    assert checker.commit(seen(DEPLOYMENTS, web(1), web(3, DONE), agent=STEP)) is None
    assert checker.commit(seen(DEPLOYMENTS, web(3, DONE), now)) is None
    assert checker.commit(seen(DEPLOYMENTS, now, undone, agent=UNDOING)) == wrong


@pytest.mark.parametrize(
    ("undone", "wrong"),
    [
        (web(1, DONE, UNDO), None),
        (
            web(3, DONE, UNDO),
            "grow of r reads Undone, but deployments.apps/default/r keeps its spec.replicas",
        ),
    ],
)
def test_a_step_that_reads_undone_has_left_nothing(undone: Obj, wrong: str | None) -> None:
    checker = UndoingIsExact()
    assert checker.commit(seen(DEPLOYMENTS, web(1), web(3, DONE), agent=STEP)) is None
    assert checker.commit(seen(DEPLOYMENTS, web(3, DONE), undone, agent=UNDOING)) is None
    assert checker.commit(seen(RUNS, run("Done"), run("Undone"))) == wrong
