"""Flags of `fathom serve …` and `fathom up` from the environment and from a file.

    --port 7443  >  FATHOM_SERVE_API_PORT=7443  >  [serve.api] port = 7443, in --config FILE or $FATHOM_CONFIG

Other commands take their flags from the command line alone: a forgotten variable must not change what
`delete` does. A variable or a key that names no flag is an error: a server that overlooks a misspelt `store`
would start an empty cluster.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.cli.problem import Problem

if TYPE_CHECKING:
    from cyclopts import App

CONFIGURED = frozenset({"serve", "up"})
PREFIX = "FATHOM_"
FLAG, VARIABLE = "--config", "FATHOM_CONFIG"


def split_config(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The words without --config, and its file. Raises Problem."""
    kept, file = [], os.environ.get(VARIABLE, "")
    rest = iter(words)
    for word in rest:
        if word == FLAG:
            file = next(rest, "")
            if not file:
                raise Problem("--config needs the name of a TOML file")
        elif word.startswith(f"{FLAG}="):
            file = word.partition("=")[2]
        else:
            kept.append(word)
    if file and not Path(file).is_file():
        raise Problem(f"{file} does not exist: --config and {VARIABLE} name a TOML file")
    return kept, Path(file) if file else None


def configure(app: App, command: Sequence[str], file: Path | None) -> None:
    """Let the flags of the command come from the environment and the file too. Raises Problem."""
    from cyclopts.config import Env, Toml  # noqa: PLC0415  # See the package's docstring.

    app.config = (Env(PREFIX), *(() if file is None else (Toml(file, must_exist=True),)))
    check_variables(app, command)


def check_variables(app: App, command: Sequence[str]) -> None:
    prefix = variable("", command)
    given = sorted(name for name in os.environ if name.startswith(prefix))
    if not given:
        return
    for word in command:
        app = app[word]
    names = {name for argument in app.assemble_argument_collection() for name in argument.names}
    known = {variable(name, command) for name in names}
    for name in given:
        if name not in known:
            flags = ", ".join(sorted(known))
            raise Problem(f"{name} names no flag of `fathom {' '.join(command)}`; those are {flags}")


def variable(flag: str, command: Sequence[str]) -> str:
    """--service-cidr of `serve api` -> FATHOM_SERVE_API_SERVICE_CIDR"""
    return "_".join((PREFIX.rstrip("_"), *command, flag.lstrip("-"))).replace("-", "_").upper()
