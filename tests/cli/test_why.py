"""What a person sees of `fathom why`: its lines, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.explain.builders import decided, evidence, node, pod, why

from fathom.cli.ask.explanation_text import explanation_lines
from fathom.cli.main import run
from fathom.explain.evidence import Gap
from fathom.explain.why.what_if import ObjectPatch, what_if

SMALL = "NodeResourcesFit: Insufficient cpu"


def lines(*, wide: bool = False) -> list[str]:
    record = decided("unschedulable", message="0/7 nodes are available: 7 Insufficient cpu.", place=(2, 20))
    nodes = [node(f"node-{number}", cpu="1") for number in range(7)]
    gap = Gap("audit log", "no answer within 2 s")
    case = evidence(pods=[pod(cpu="2")], nodes=nodes, records=(record,), gaps=(gap,))
    return explanation_lines(msgspec.to_builtins(why(case)), wide=wide)


def test_the_first_line_is_the_answer_and_the_command_comes_below_it() -> None:
    first, second, *_ = lines()
    assert first == (
        "pod shop/web is not scheduled: 7 of 7 nodes have too little free cpu (NodeResourcesFit)."
        " Change: lower cpu of container web to 1 (the pod's owner)"
    )
    assert second.startswith("  $ kubectl -n shop patch pod web --type=json -p ")


def test_many_nodes_are_cut_short_and_wide_output_lists_each_with_its_reason() -> None:
    short, wide = lines(), lines(wide=True)
    group = "7  NodeResourcesFit: Insufficient cpu: node-0, node-1, node-2, node-3, node-4"
    assert f"{group} and 2 more" in [line.strip() for line in short]
    assert f"{group}, node-5, node-6" in [line.strip() for line in wide]
    assert "  node-6  NodeResourcesFit: Insufficient cpu" in wide
    assert "  node-6  NodeResourcesFit: Insufficient cpu" not in short


def test_queue_record_and_gaps_are_told() -> None:
    told = "\n".join(lines())
    assert "place in the queue at the last attempt: 2 of 20" in told
    assert "recorded: unschedulable d-unschedulable at" in told
    assert "no data: audit log: no answer within 2 s" in told


def test_of_a_what_if_the_parts_that_are_on_record_are_marked() -> None:
    """With the change it fits; that two nodes were too small is what the last decision saw without it."""
    record = decided("unschedulable", message="0/2 nodes", nodes={"a": SMALL, "b": SMALL})
    case = evidence(pods=[pod(cpu="2")], nodes=[node("a", cpu="1"), node("b", cpu="1")], records=(record,))
    more = ObjectPatch("nodes", "", "a", {"status": {"allocatable": {"cpu": "2"}}})
    document = msgspec.to_builtins(why(what_if(case, [more])))
    assert [group["recorded"] for group in document["groups"]] == [True]
    told = [line.strip() for line in explanation_lines(document, what_if=True)]
    assert f"2  {SMALL}: a, b [recorded, without the change]" in told
    assert told[-1].endswith("made without the change; the rest is asked again with it")
    plain = [line.strip() for line in explanation_lines(document)]
    assert [f"2  {SMALL}: a, b" in plain, any("asked again with it" in line for line in plain)] == [
        True,
        False,
    ]
    still = msgspec.to_builtins(why(case))
    assert [group["recorded"] for group in still["groups"]] == [False], "asked again: it does not fit either"


def test_a_command_that_is_the_change_itself_is_not_said_twice() -> None:
    case = evidence(pods=[pod()], nodes=[node("a", unschedulable=True)])
    told = explanation_lines(msgspec.to_builtins(why(case)))
    assert sum("kubectl uncordon a" in line for line in told) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["pod/x"], "does not answer"),
        (["pod/"], "KIND/NAME or NAME"),
        (["pod/x", "--kubeconfig", "/nosuch/file"], "cannot read /nosuch/file"),
    ],
)
def test_a_question_that_cannot_be_asked_is_a_usage_error(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = [] if "--kubeconfig" in words else ["--kubeconfig", str(_kubeconfig(tmp_path))]
    assert run(["why", *words, *config]) == 2
    assert complaint in capsys.readouterr().err


def _kubeconfig(directory: Path) -> Path:
    file = directory / "config"
    file.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}]}"
    )
    return file
