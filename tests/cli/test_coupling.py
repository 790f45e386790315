"""`fathom coupling`: its subjects, its outputs, its exit codes."""

from __future__ import annotations

import json

import pytest

from fathom.cli.coupling import parse
from fathom.cli.main import run
from fathom.cli.problem import Problem
from fathom.explain.coupling.answer import CouplingQuestion
from fathom.explain.evidence import ObjectRef


@pytest.mark.parametrize(
    ("subject", "about", "question"),
    [
        ("autoscaling", ObjectRef("", "", ""), CouplingQuestion(controller="autoscaling")),
        ("controllers/nodes", ObjectRef("", "", ""), CouplingQuestion(controller="controllers/nodes")),
        ("deploy/web", ObjectRef("deployments.apps", "shop", "web"), CouplingQuestion()),
        (
            "Pod/web-1:status.conditions[type=fathom.dev/Serving]",
            ObjectRef("pods", "shop", "web-1"),
            CouplingQuestion(field="status.conditions[type=fathom.dev/Serving]"),
        ),
        ("node/node-1", ObjectRef("nodes", "", "node-1"), CouplingQuestion()),
    ],
)
def test_a_subject_is_a_controller_an_object_or_a_field(
    subject: str, about: ObjectRef, question: CouplingQuestion
) -> None:
    assert parse(subject, "shop") == (about, question)


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(Problem, match="there is no kind 'gadget'"):
        parse("gadget/web", "default")


def test_without_a_subject_the_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["coupling"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"scheduler", "binder", "controllers/autoscaling", "admission/LimitRanger", "agent"} <= set(names)


def test_a_controller_is_answered_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["coupling", "autoscaling"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("controllers/autoscaling decides from 7 kinds")


def test_json_and_dot_are_whole_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["coupling", "scheduler", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["subject"] == "scheduler"
    assert {link["form"] for link in document["links"]} >= {"two-writers", "shared-capacity", "cache-lag"}
    assert run(["coupling", "scheduler", "-o", "dot"]) == 0
    graph = capsys.readouterr().out
    assert graph.startswith("digraph coupling {")
    assert graph.rstrip().endswith("}")


def test_an_unknown_controller_is_an_error_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["coupling", "nobody"]) == 2
    assert "there is no controller 'nobody': there are scheduler" in capsys.readouterr().err
