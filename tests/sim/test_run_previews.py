"""A whole run of a runbook, tried in forks of a state."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.sim.test_fork import REPLICAS, changed, settled

from fathom.kinds.preview_answer import Preview
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.kinds.runbook_run import RunbookRun
from fathom.kinds.shape import read
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.user import MASTERS, User
from fathom.sim.fork import end, fork, perform, run_for
from fathom.sim.preview.answer import preview_run
from fathom.sim.preview.futures import AS_IF_APPROVED
from fathom.sim.preview.tried_run import OVERRIDES, YES_TO_ALL, TriedRun, run_for_fork

ADMIN = User("admin", (MASTERS,))
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
TARGET = {"name": "target", "object": WEB, "observed": True}
GROWN = {"name": "grown", "expression": f"target.status.readyReplicas == {REPLICAS + 2}"}
GROW = {
    "id": "grow",
    "action": {"scale": {"target": WEB, "replicas": REPLICAS + 2}},
    "expect": [GROWN],
    "compensation": {"restore": True},
}


def run_of(*steps: Obj, **more: Any) -> Obj:
    content = msgspec.convert({"inputs": [TARGET], "steps": list(steps), **more}, RunbookSpec)
    pinned = {"name": "grow", "source": "cluster", "version": 1, "hash": spec_hash(content)}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "RunbookRun",
        "metadata": {"name": "tried", "namespace": "default"},
        "spec": {"runbook": pinned, "content": msgspec.to_builtins(content), "parameters": {}},
    }


def tried(run: Obj, *, user: User = ADMIN, minutes: int = 2) -> Preview:
    return preview_run(settled(), run, user=user, minutes=minutes, seeds=("1", "2"))


def test_what_a_fork_cannot_judge_is_left_out_by_name() -> None:
    decisions = {"name": "decided", "decisions": {"workload": "web"}}
    asks = {"name": "by-nobody", "expression": "decided.size() > 0"}
    like = {"name": "like", "expression": "target.metadata.name != 'undecided'"}
    run = run_of(
        {**GROW, "expect": [GROWN, asks], "stopIf": [like]},
        inputs=[TARGET, decisions],
        preconditions=[GROWN],
        postconditions=[asks],
    )
    forked, notes = run_for_fork(run)
    spec = read(RunbookRun, forked).spec
    content = spec.content
    assert notes == ("Not judged in a fork, which has no records: by-nobody.",)
    assert [given.name for given in content.inputs] == ["target"]
    assert [each.name for each in content.steps[0].expect] == ["grown"]
    assert [each.name for each in content.steps[0].stop_if] == ["like"]
    assert (content.preconditions, content.postconditions) == ((), ())
    assert spec.runbook.hash == spec_hash(content)


@pytest.mark.slow
def test_all_steps_are_carried_out_in_each_fork_and_compared_with_none() -> None:
    ask = {"id": "sure", "action": {"prompt": {"question": "Are you sure?"}}}
    answer = tried(run_of(ask, GROW))
    assert [(run.phase, [step.state for step in run.steps]) for run in answer.runs] == [
        ("Succeeded", ["Done", "Done"])
    ] * 2
    assert all(run.seconds is not None and 0 < run.seconds < 60 for run in answer.runs)
    assert YES_TO_ALL in answer.notes
    assert any("scale Deployment web" in line.line for line in answer.runs[0].lines)
    assert not answer.runs[1].lines
    ready = next(each for each in answer.difference if (each.of, each.what) == ("cluster", "ready"))
    assert (ready.change.min, ready.change.max) == (2, 2)
    assert answer.after_the_end is None
    assert ("Deployment", "web") in [(each.kind, each.name) for each in answer.touched]


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_cannot_get_further_is_told_with_its_step() -> None:
    answer = tried(run_of({**GROW, "action": {"scale": {"target": WEB, "replicas": 1000}}}))
    assert {run.phase for run in answer.runs} == {"Running"}
    assert [run.seconds for run in answer.runs] == [None, None]
    assert {run.steps[0].state for run in answer.runs} == {"Acted"}


@pytest.mark.slow
def test_a_run_has_only_the_rights_of_its_author() -> None:
    answer = tried(run_of(GROW), user=User("jane"))
    assert answer.refused is not None
    assert (answer.refused.code, answer.refused.reason) == (403, "Forbidden")


def with_approvals(key: str, obj: Obj) -> Obj:
    if not key.startswith("/registry/steeringlimits.fathom.dev/"):
        return obj
    return {**obj, "spec": {**obj["spec"], "approvals": "on"}}


def drain(name: str, node: str) -> Obj:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name},
        "spec": {
            "target": f"node/{node}",
            "scope": "cluster",
            "reason": "a test",
            "expiresAfter": "60s",
            "changes": {"drain": True},
        },
    }


def draining_run() -> Obj:
    seen = {"name": "override", "object": {"kind": "SchedulerOverride", "name": "drained"}}
    active = {"name": "active", "expression": "override.status.active"}
    step = {"id": "drain", "action": {"create": drain("drained", "node-1")}, "expect": [active]}
    run = run_of(step, inputs=[seen])
    run["metadata"]["namespace"] = "fathom-system"
    return run


@pytest.mark.slow
@pytest.mark.full
def test_an_override_of_a_run_that_needs_an_approval_gets_one() -> None:
    answer = preview_run(
        changed(settled(), with_approvals), draining_run(), user=ADMIN, minutes=2, seeds=("1",)
    )
    assert answer.runs[0].phase == "Succeeded"
    assert AS_IF_APPROVED in answer.notes


@pytest.mark.slow
def test_an_override_that_waited_for_approval_before_goes_on_waiting() -> None:
    world = fork(changed(settled(), with_approvals), "1")
    try:
        waiting = drain("waiting", "node-2")
        waiting["metadata"]["namespace"] = "fathom-system"
        perform(world, lambda world: world.api.create(OVERRIDES, "fathom-system", waiting))
        TriedRun("1", draining_run(), ADMIN).begin(world)
        run_for(world, 30)
        approvals = {
            metadata(override)["name"]: bool(lookup(override, "status", "approval", "approved"))
            for override in world.list(OVERRIDES.name)
        }
    finally:
        end(world)
    assert approvals == {"drained": True, "waiting": False}
