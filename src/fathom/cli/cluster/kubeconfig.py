"""`fathom kubeconfig`: the kubeconfig of a data directory."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fathom.cli.places import KUBECONFIG_FILE, Data, found_data
from fathom.cli.problem import Problem
from fathom.terminal import say_document


def kubeconfig(
    *,
    data: Data = None,
    path: Annotated[
        bool, Parameter(negative=(), help="Print the path of the file, not its content.")
    ] = False,
) -> None:
    """Print the kubeconfig of the API server of a data directory; with --path, the path of the file.

    fathom kubeconfig --data /var/lib/fathom
    fathom kubeconfig --path  for export KUBECONFIG="$(fathom kubeconfig --path)"
    """
    file = found_data(data) / KUBECONFIG_FILE
    if not file.is_file():
        raise Problem(f"{file} does not exist: start a cluster with `fathom up --data {file.parent}`")
    say_document(str(file.resolve()) if path else file.read_text())
