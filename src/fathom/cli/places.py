"""Where the API server and the data directory of a command are: all commands look in the same way.

    API server:      --kubeconfig, $KUBECONFIG, .fathom/kubeconfig, ~/.kube/config, the pod's service account
    namespace:       --namespace, that of the kubeconfig's context, default
    data directory:  --data, the directory of --kubeconfig or $KUBECONFIG if it is one of fathom's, .fathom

A command that starts something new (`up`, `serve`, `demo`, `doctor`, `store restore`) uses --data or its own
default: it must not write into another cluster because a variable names that one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.problem import Problem

DEFAULT_DATA = Path(".fathom")
KUBECONFIG_FILE = "kubeconfig"  # `fathom up` writes it to its data directory.
COPY_OF = "attached"  # `fathom attach` notes there whose objects the directory has; as in `fathom.serve`.
# What only a data directory of fathom's has.
MARKS = ("store.db", "pki", "up.lock", "journal", "tapes", "tape", "agents")

Kubeconfig = Annotated[
    Path | None,
    Parameter(help="Kubeconfig file. Default: $KUBECONFIG, else .fathom/kubeconfig, else kubectl's."),
]
Namespace = Annotated[
    str,
    Parameter(
        name=("--namespace", "-n"), help="Namespace. Default: that of the kubeconfig's context, else default."
    ),
]
Data = Annotated[
    Path | None,
    Parameter(help="Data directory of the cluster. Default: that of the kubeconfig, else .fathom."),
]
NewData = Annotated[Path, Parameter(help="Data directory of the cluster.")]


def found_kubeconfig(kubeconfig: Path | None) -> Path | None:
    """The kubeconfig given; else that of a `fathom up` in this directory, unless the environment names
    another. None: where kubectl looks."""
    default = DEFAULT_DATA / KUBECONFIG_FILE
    if kubeconfig is None and not os.environ.get("KUBECONFIG") and default.exists():
        return default
    return kubeconfig


def chosen_namespace(namespace: str, kubeconfig: Path | None) -> str:
    """Raises Problem."""
    if namespace:
        return namespace
    from fathom.cli.confirmation import place_of  # noqa: PLC0415  # Only where none is given.

    return place_of(found_kubeconfig(kubeconfig)).namespace or "default"


def found_data(data: Path | None, kubeconfig: Path | None = None) -> Path:
    """The data directory given; else that of the kubeconfig, whose cluster may not be fathom's."""
    if data is not None:
        return data
    beside = data_beside(kubeconfig)
    return beside if is_data_directory(beside) else DEFAULT_DATA


def existing_data(data: Path | None, kubeconfig: Path | None = None) -> Path:
    """Raises Problem where no cluster ever was: nothing is there to read, to end or to restore."""
    path = found_data(data, kubeconfig)
    if is_data_directory(path):
        return path
    state = "has no cluster" if path.is_dir() else "does not exist"
    raise Problem(
        f"{path} {state}: name the data directory of a cluster with --data, or start one with `fathom up`"
    )


def data_beside(kubeconfig: Path | None = None) -> Path:
    """The directory of a kubeconfig: `fathom up` writes its kubeconfig to its data directory."""
    named = kubeconfig or next(
        (Path(part) for part in os.environ.get("KUBECONFIG", "").split(":") if part), None
    )
    return named.absolute().parent if named is not None else DEFAULT_DATA


def observer_of(url: str) -> Path | None:
    """The kubeconfig of a `fathom attach` in this directory that observes the server of this address."""
    mark, kubeconfig = DEFAULT_DATA / COPY_OF, DEFAULT_DATA / KUBECONFIG_FILE
    if not mark.is_file() or not kubeconfig.exists():
        return None
    return kubeconfig if mark.read_text(errors="replace").strip() == url else None


def is_data_directory(path: Path) -> bool:
    return any((path / mark).exists() for mark in MARKS)
