"""Proposed commands, on a machine without kubectl."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import fathom
from fathom.cli.ask.typed_commands import for_this_machine, with_fathom
from fathom.cli.commands import COMMANDS
from fathom.cli.main import command_first

SOURCE = Path(fathom.__file__).parent


@pytest.mark.parametrize(
    ("proposed", "typed"),
    [
        ("kubectl uncordon node-1", "fathom uncordon node-1"),
        (
            "kubectl patch pod p -p '{}' --dry-run=client -o json | kubectl replace --force -f -",
            "fathom patch pod p -p '{}' --dry-run=client -o json | fathom replace --force -f -",
        ),
        ("kubectl delete pod a && kubectl delete pod b", "fathom delete pod a && fathom delete pod b"),
        ("kubectl a; kubectl b", "fathom a; fathom b"),
        (
            """echo '{"run":"x | kubectl y"}' | kubectl apply -f -""",
            """echo '{"run":"x | kubectl y"}' | fathom apply -f -""",
        ),
        ("kubectl logs kubectl -c kubectl ", "fathom logs kubectl -c kubectl "),
        ("fathom record status", "fathom record status"),
        ("", ""),
    ],
)
def test_fathom_stands_wherever_a_shell_would_start_kubectl(proposed: str, typed: str) -> None:
    assert with_fathom(proposed) == typed


def test_who_has_kubectl_is_told_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert for_this_machine("kubectl get pods") == "fathom get pods"
    (tmp_path / "kubectl").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    assert for_this_machine("kubectl get pods") == "kubectl get pods"


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("-n shop get pods", "get pods -n shop"),
        ("--namespace=shop --kubeconfig k get pods", "get pods --namespace=shop --kubeconfig k"),
        ("get pods -n shop", "get pods -n shop"),
        ("-n", "-n"),
        ("", ""),
    ],
)
def test_flags_may_stand_before_the_command(typed: str, read: str) -> None:
    assert command_first(typed.split()) == read.split()


def test_fathom_has_every_command_that_an_explanation_proposes() -> None:
    """Whatever `why` proposes can be typed without kubectl."""
    text = "\n".join(path.read_text() for path in (SOURCE / "explain").rglob("*.py"))
    proposed = set(re.findall(r'["\'| ]kubectl (?:-n \S+ )?([a-z]+) ', text))
    proposed |= set(re.findall(r'kubectl\(\s*"([a-z]+)"', text))
    assert {"patch", "uncordon", "edit", "logs", "annotate"} <= proposed  # The expressions find them.
    assert proposed <= set(COMMANDS)
