"""The data directory that a command reads: refused if a newer fathom wrote it."""

from __future__ import annotations

from pathlib import Path

from fathom.cli.problem import Problem


def checked(data: Path) -> Path:
    """The same path. Raises Problem."""
    from fathom.data_format import UnknownFormat, check  # noqa: PLC0415  # See the package's docstring.

    try:
        check(data)
    except UnknownFormat as error:
        raise Problem(str(error)) from error
    return data
