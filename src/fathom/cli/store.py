"""`fathom store`: back up, restore and verify the store of a data directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from msgspec import structs

from fathom.cli.data_directory import checked
from fathom.cli.output import Output, print_document
from fathom.cli.places import DEFAULT_DATA, Data, NewData, existing_data
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.store.verify import Verified

HELP = """Back up, restore and verify the store of an API server.

fathom store backup monday.db
fathom store verify monday.db
"""


def make_app() -> App:
    app = App(name="store", help=HELP)
    app.command(backup)
    app.command(restore)
    app.command(verify)
    return app


def backup(
    file: Annotated[Path, Parameter(help="File to write.")], /, *, data: Data = None, output: Output = ""
) -> None:
    """Copy the store to FILE and verify the copy. Works while the API server runs.

    Prints the number of objects in the copy, and its revision.

    fathom store backup monday.db
    fathom store backup monday.db --data /var/lib/fathom
    """
    from fathom.store import backup as store_backup  # noqa: PLC0415  # See the package's docstring.

    data = existing_data(data)
    with _store_errors_as_problems():
        _say_done(f"backed up {data} to", store_backup.backup(checked(data), file), output)


def restore(
    file: Annotated[Path, Parameter(help="Backup to read.")],
    /,
    *,
    data: NewData = DEFAULT_DATA,
    output: Output = "",
) -> None:
    """Restore the store of a data directory from a backup. Never replaces an existing store.

    Prints the number of objects in it, and its revision.

    fathom store restore monday.db
    fathom store restore monday.db --data ./other
    """
    from fathom.store import backup as store_backup  # noqa: PLC0415
    from fathom.store.sqlite_file import prepare_directory  # noqa: PLC0415

    checked(data)
    if not file.is_file():
        raise Problem(f"{file} does not exist: name a file that `fathom store backup` has written")
    with _store_errors_as_problems():
        for warning in prepare_directory(data):
            say(f"warning: {warning}", err=True)
        _say_done(f"restored {file} to", store_backup.restore(file, data), output)


def verify(
    path: Annotated[
        Path | None, Parameter(help="Data directory, or backup. Default: that of the kubeconfig, or .fathom.")
    ] = None,
    /,
    *,
    output: Output = "",
) -> int:
    """Check the store of a data directory, or a backup, for damage. Works while the API server runs.

    Prints that it is sound, with the number of objects; or what is damaged, and exits with 1.

    fathom store verify
    fathom store verify monday.db
    """
    from fathom.store import verify as store_verify  # noqa: PLC0415

    if path is None or path.is_dir() or not path.exists():
        path = existing_data(path)
    with _store_errors_as_problems():
        verified = store_verify.verify(checked(path))
    if output:
        print_document({**structs.asdict(verified), "sound": verified.sound}, output)
        return 0 if verified.sound else ANSWER_IS_NO
    if verified.sound:
        say(f"sound: {_summary(verified)}")
        return 0
    say(f"damaged: {verified.path}", *(f"  {problem}" for problem in verified.problems))
    return ANSWER_IS_NO


def _say_done(what: str, verified: Verified, output: str) -> None:
    if output:
        print_document({**structs.asdict(verified), "sound": verified.sound}, output)
    else:
        say(f"{what} {_summary(verified)}")


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
