"""`fathom kubeconfig`: find the kubeconfig of a data directory, and the data directory of a kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.problem import Problem
from fathom.terminal import say_text

DEFAULT_DATA = Path(".fathom")


def kubeconfig(
    *,
    data: Annotated[Path, Parameter(help="Data directory of the API server.")] = DEFAULT_DATA,
    path: Annotated[
        bool, Parameter(negative=(), help="Print the path of the file, not its content.")
    ] = False,
) -> None:
    """Print the kubeconfig of the API server of a data directory.

    Use it with: export KUBECONFIG="$(fathom kubeconfig --path)"
    """
    file = data / "kubeconfig"
    if not file.is_file():
        raise Problem(f"{file} does not exist: start a cluster with `fathom up --data {data}`")
    say_text(str(file.resolve()) if path else file.read_text())


def found_kubeconfig(kubeconfig: Path | None) -> Path | None:
    """The kubeconfig given; else that of a `fathom up` in this directory, unless the environment names
    another."""
    default = DEFAULT_DATA / "kubeconfig"
    if kubeconfig is None and not os.environ.get("KUBECONFIG") and default.exists():
        return default
    return kubeconfig


def data_beside(kubeconfig: Path | None = None) -> Path:
    """The data directory of a kubeconfig: `fathom up` writes its kubeconfig there."""
    named = kubeconfig or next(
        (Path(part) for part in os.environ.get("KUBECONFIG", "").split(":") if part), None
    )
    return named.absolute().parent if named is not None else DEFAULT_DATA
