"""Ask a person before something is changed, and know which cluster that would be."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

YES = frozenset({"y", "yes"})


class Place(msgspec.Struct, frozen=True):
    """Where a command acts, as the kubeconfig names it."""

    context: str  # '' inside a pod, where there is no kubeconfig.
    cluster: str
    url: str
    namespace: str  # Of the context; '' if it names none.

    def __str__(self) -> str:
        if not self.context:
            return self.url
        cluster = f"cluster {self.cluster}, " if self.cluster != self.context else ""
        return f"{self.context} ({cluster}{self.url})"


def place_of(kubeconfig: Path | None) -> Place:
    """Raises Problem."""
    from fathom.client.kubeconfig import BadKubeconfig, read_context  # noqa: PLC0415  # See the package's docstring.
    from fathom.client.servers import find_files  # noqa: PLC0415

    files = find_files(kubeconfig, os.environ)
    if not files:
        return Place("", "", "the cluster of this pod", "")
    try:
        context = read_context(files)
        return Place(context.name, context.cluster_name, context.url.geturl(), context.namespace)
    except BadKubeconfig as error:
        raise Problem(str(error)) from error


def confirm(question: str, *, yes: bool) -> None:
    """Raises Problem unless a person at a terminal agrees, or did so in advance with --yes."""
    if yes:
        return
    require_terminal()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if answer.strip().lower() not in YES:
        if not answer.endswith("\n"):
            say("", err=True)
        raise Problem("nothing was changed", exit_code=ANSWER_IS_NO)


def require_terminal() -> None:
    """Raises Problem if nobody can be asked."""
    if not sys.stdin.isatty():
        raise Problem(
            "there is no terminal to ask at: look at what it would do with --dry-run=server where the command"
            " has it, then repeat the command with --yes"
        )
