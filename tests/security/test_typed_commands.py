"""What a cluster's texts say never becomes a second command in one that a person is told to type.

`fathom why`, the page, `fathom top` and assistants show commands to copy. Names in them that the API server
checks are harmless; others are any text: a scheduler's name, the target of an autoscaler, what an Event says.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from tests.explain.builders import evidence as pod_evidence
from tests.explain.builders import node, why
from tests.explain.builders import pod as waiting_pod
from tests.explain.evidence_of import condition, deployment, explain, obj

from fathom.explain.why.commands import word

SOURCE = Path(__file__).parents[2] / "src" / "fathom"
EVIL = "x; touch owned #$(id)`id`'\"\n"
COMMAND = re.compile("(kubectl|fathom) (?!has )")  # Not the sentence "fathom has no controller for …".
# Names of what is made of words already, or is no text of the cluster.
MADE_OF_WORDS = frozenset({"within", "of_container", "set_to", "REPLACE", "DECLARED", "SCHEDULER"})


def test_the_name_of_a_scheduler_is_one_word() -> None:
    explanation = why(pod_evidence(pods=[waiting_pod(schedulerName=EVIL)], nodes=[node("a")]))
    assert explanation.change is not None
    assert shlex.split(explanation.change.command) == ["fathom", "serve", "scheduler", f"--name={EVIL}"]


def autoscaler(kind: str, name: str, *conditions: dict[str, object]) -> dict[str, object]:
    spec = {"scaleTargetRef": {"kind": kind, "name": name}, "maxReplicas": 4}
    return obj(
        "HorizontalPodAutoscaler",
        "hpa",
        spec=spec,
        status={"observedGeneration": 1, "conditions": list(conditions)},
    )


def test_the_target_of_an_autoscaler_is_one_word() -> None:
    able, disabled = condition("AbleToScale", "True"), condition("ScalingActive", "False", "ScalingDisabled")
    change = explain(autoscaler("Deployment", EVIL, able, disabled), deployment()).change
    assert change is not None
    words = ["kubectl", "scale", f"deployment/{EVIL}", "-n", "shop", "--replicas=1"]
    assert shlex.split(change.command) == words


def test_a_name_that_would_be_an_option_is_left_to_the_person() -> None:
    assert (word("web-1"), word("a b"), word("--kubeconfig=other")) == ("web-1", "'a b'", "NAME")


@pytest.mark.parametrize(
    ("kind", "name", "command"),
    [
        ("Deployment", "web", "kubectl create deployment web"),
        ("Deployment", EVIL, ""),
        ("Deployment", "--kubeconfig=other", ""),
        ("-f", "https://example.com/all.yaml", ""),
        ("Rocket", "web", ""),
    ],
)
def test_a_target_that_is_not_there_is_no_option_of_kubectl(kind: str, name: str, command: str) -> None:
    lost = condition("AbleToScale", "False", "FailedGetScale", "not found")
    change = explain(autoscaler(kind, name, lost)).change
    assert change is not None
    assert change.command == command


def unquoted(source: str) -> list[str]:
    """What is put into commands as it is."""
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)]
    return [
        f"{part.lineno}: {ast.unparse(part.value)}"
        for text in texts
        if isinstance(first := text.values[0], ast.Constant) and COMMAND.match(str(first.value))
        for part in text.values
        if isinstance(part, ast.FormattedValue) and not _is_quoted(part.value)
    ]


def _is_quoted(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in {"word", "shlex.quote", "shlex.join"}
    return isinstance(value, ast.Name) and value.id in MADE_OF_WORDS


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('f"kubectl get {name} -n {word(namespace)}"', 1),
        ("f\"kubectl patch -p '{patch}'\"", 1),
        ('f"kubectl edit {word(kind)}/{word(name)}{within}"', 0),
        ('f"no scheduler named {name}"', 0),
    ],
)
def test_the_lint_sees_what_is_not_quoted(source: str, count: int) -> None:
    assert len(unquoted(source)) == count


def test_every_command_that_an_explanation_shows_quotes_what_it_names() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted((SOURCE / "explain").rglob("*.py"))
        if (lines := unquoted(path.read_text()))
    }
    assert found == {}
