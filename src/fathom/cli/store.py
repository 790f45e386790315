"""`fathom store`: back up, restore and verify the store of a data directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from fathom.cli.data_directory import checked
from fathom.cli.kubeconfig import DEFAULT_DATA
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.store.verify import Verified

Data = Annotated[Path, Parameter(help="Data directory of the API server.")]


def make_app() -> App:
    app = App(name="store", help="Back up, restore and verify the store of an API server.")
    app.command(backup)
    app.command(restore)
    app.command(verify)
    return app


def backup(file: Annotated[Path, Parameter(help="File to write.")], /, *, data: Data = DEFAULT_DATA) -> None:
    """Copy the store to FILE and verify the copy. Works while the API server runs."""
    from fathom.store import backup as store_backup  # noqa: PLC0415  # See the package's docstring.

    with _store_errors_as_problems():
        say(f"backed up {data} to {_summary(store_backup.backup(checked(data), file))}")


def restore(
    file: Annotated[Path, Parameter(help="Backup to read.")], /, *, data: Data = DEFAULT_DATA
) -> None:
    """Restore the store of a data directory from a backup. Never replaces an existing store."""
    from fathom.store import backup as store_backup  # noqa: PLC0415
    from fathom.store.sqlite_file import prepare_directory  # noqa: PLC0415

    with _store_errors_as_problems():
        for warning in prepare_directory(data):
            say(f"warning: {warning}")
        say(f"restored {file} to {_summary(store_backup.restore(file, data))}")


def verify(path: Annotated[Path, Parameter(help="Data directory, or backup.")] = DEFAULT_DATA, /) -> int:
    """Check the store of a data directory, or a backup, for damage. Works while the API server runs."""
    from fathom.store import verify as store_verify  # noqa: PLC0415

    if not path.exists():
        raise Problem(f"{path} does not exist")
    with _store_errors_as_problems():
        verified = store_verify.verify(checked(path))
    if verified.sound:
        say(f"sound: {_summary(verified)}")
        return 0
    say(f"damaged: {verified.path}", *(f"  {problem}" for problem in verified.problems))
    return ANSWER_IS_NO


def _summary(verified: Verified) -> str:
    return f"{verified.path}: {verified.keys:,} objects, {verified.rows:,} rows, revision {verified.revision}"


@contextlib.contextmanager
def _store_errors_as_problems() -> Iterator[None]:
    """Show the store's error messages as they are: they are written for users."""
    from fathom.store.protocol import StoreUnavailable  # noqa: PLC0415

    try:
        yield
    except StoreUnavailable as error:
        raise Problem(str(error)) from error


app = make_app()
