"""What `why` proposes for waiting pods, against brute force over single changes, each made in a fork."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import pytest

from fathom.explain.why.answer import Change, Explanation
from fathom.model.objects import Key
from fathom.sim.single_changes import resources
from fathom.sim.single_changes.compare import Compared, ask, compared
from fathom.sim.single_changes.random_cluster import WaitingPod, waiting_pods
from fathom.sim.single_changes.report import report_lines, summary_line
from fathom.sim.single_changes.typed import ApiChange, NotMade, patched, read_command

FEW, MANY = 4, 50
SEEDS = (1000, 2000, 3000, 4000)  # MANY pods from each on: 200, on several cores.
REQUESTS = "/spec/containers/0/resources/requests"


def disagreements(results: list[Compared]) -> str:
    return "\n".join(line for result in results if result.problems for line in report_lines(result))


def test_no_smaller_change_than_the_proposed_one_admits_a_few_waiting_pods() -> None:
    results = [compared(waiting) for waiting in waiting_pods(0, FEW)]
    assert disagreements(results) == ""
    assert sum(result.proposed == 1 for result in results) >= 1, summary_line(results)
    assert sum(result.proposed > 1 for result in results) >= 1, summary_line(results)


@pytest.mark.full
def test_that_a_class_may_admit_the_tenant_instead_of_an_override_is_told() -> None:
    """Seed 2040: its pod asks for no class, and the nodes that it selects are reserved."""
    results = [compared(waiting) for waiting in waiting_pods(2040, 1)]
    assert [result.seed for result in results] == [2040]
    assert disagreements(results) == ""


@pytest.mark.full
@pytest.mark.parametrize("first", SEEDS)
def test_no_smaller_change_than_the_proposed_one_admits_200_waiting_pods(first: int) -> None:
    results = [compared(waiting) for waiting in waiting_pods(first, MANY)]
    assert disagreements(results) == ""
    assert sum(result.has_single for result in results) >= MANY // 5, summary_line(results)
    assert sum(result.proposed > 1 for result in results) >= MANY // 5, summary_line(results)
    assert sum(result.admitted for result in results) >= MANY // 2, summary_line(results)


# The comparison finds worse answers.


@lru_cache(maxsize=1)
def too_large() -> tuple[WaitingPod, Explanation]:
    """A pod that `why` would have request less."""
    for waiting in waiting_pods(0, 100):
        answer = ask(waiting)
        if answer.change is not None and answer.change.what.startswith("lower cpu of container main to"):
            steps = read_command(answer.change.command)
            if len(steps) == 1 and steps[0].count == 1:
                return waiting, answer
    pytest.fail("no pod of 100 would have to request less")


def instead(answer: Explanation, command: str) -> Explanation:
    change = Change("another change", command, "the pod's owner")
    return msgspec.structs.replace(answer, change=change, changes=())


def lowering(*amounts: tuple[str, str]) -> str:
    operations = [{"op": "replace", "path": f"{REQUESTS}/{name}", "value": text} for name, text in amounts]
    patch = msgspec.json.encode(operations).decode()
    changed = f"kubectl -n shop patch pod waiting --type=json -p '{patch}' --dry-run=client -o json"
    return f"{changed} | kubectl replace --force -f -"


@pytest.mark.full
def test_a_request_that_is_lowered_too_far_is_found() -> None:
    waiting, answer = too_large()
    result = compared(waiting, instead(answer, lowering(("cpu", "1m"))))
    assert result.admitted
    assert any(problem.startswith("less of the same is enough") for problem in result.problems)


@pytest.mark.full
def test_two_changes_where_one_is_enough_are_found() -> None:
    waiting, answer = too_large()
    result = compared(waiting, instead(answer, lowering(("cpu", "1m"), ("memory", "1Mi"))))
    assert result.admitted
    assert any(problem.startswith("a single change admits the pod") for problem in result.problems)


@pytest.mark.full
def test_a_change_that_does_not_help_is_found() -> None:
    waiting, answer = too_large()
    result = compared(waiting, instead(answer, lowering(("memory", "1Mi"))))
    assert "the proposed change does not admit the pod" in result.problems


@pytest.mark.full
def test_an_answer_without_a_change_is_found() -> None:
    waiting, answer = too_large()
    result = compared(waiting, msgspec.structs.replace(answer, change=None))
    assert "no change is proposed" in result.problems


# Commands.


def test_the_commands_that_why_prints_are_read() -> None:
    removal = {"op": "remove", "path": "/spec/nodeSelector"}
    assert read_command(
        "kubectl uncordon node-1 && kubectl -n shop delete scheduleroverride calm"
        """ && kubectl -n shop patch pod web --type=json -p '[{"op":"remove","path":"/spec/nodeSelector"}]'"""
        " --dry-run=client -o json | kubectl replace --force -f -"
    ) == [
        ApiChange(
            "patch", resources.NODES, Key("", "node-1"), ({"op": "remove", "path": "/spec/unschedulable"},)
        ),
        ApiChange("delete", resources.OVERRIDES, Key("shop", "calm")),
        ApiChange("replace", resources.PODS, Key("shop", "web"), (removal,)),
    ]


def test_a_merge_patch_is_read_as_its_fields() -> None:
    (change,) = read_command(
        """kubectl -n shop patch resourcequota room --type=merge -p '{"spec":{"hard":{"pods":"3"}}}'"""
    )
    assert change.operations == ({"op": "replace", "path": "/spec/hard/pods", "value": "3"},)


@pytest.mark.parametrize("command", ["", "rm -r /", "kubectl drain node-1 --force", "kubectl patch lease x"])
def test_other_commands_are_not_guessed(command: str) -> None:
    with pytest.raises(NotMade):
        read_command(command)


def test_a_patch_whose_path_does_not_exist_is_not_made() -> None:
    change = ApiChange(
        "replace", resources.PODS, Key("shop", "web"), ({"op": "remove", "path": "/spec/a/b"},)
    )
    with pytest.raises(NotMade):
        patched({"spec": {}}, change)
