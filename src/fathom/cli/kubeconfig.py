"""`fathom kubeconfig`: how to reach the server of a data directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.problem import Problem


def kubeconfig(
    *,
    data: Annotated[Path, Parameter(help="The server's data directory.")] = Path(".fathom"),
    path: Annotated[bool, Parameter(negative=(), help="Print where the file is, not what is in it.")] = False,
) -> None:
    """Print the kubeconfig of the server in a data directory.

    Use it with: export KUBECONFIG="$(fathom kubeconfig --path)"
    """
    file = data / "kubeconfig"
    if not file.is_file():
        raise Problem(f"no server has run in {data} yet: {file} is missing (fathom up --data {data})")
    print(file.resolve() if path else file.read_text(), end="\n" if path else "")
