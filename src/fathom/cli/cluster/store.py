"""`fathom store`: back up, restore, verify and migrate stores."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from msgspec import structs

from fathom.cli.data_directory import checked
from fathom.cli.output import DOCUMENTS, FileOutput, print_document
from fathom.cli.places import DEFAULT_DATA, Data, NewData, existing_data
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.status_line import waiting
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.store.migrate import Migrated
    from fathom.store.protocol import Store
    from fathom.store.verify import Verified

HELP = """Back up, restore, verify and migrate the store of an API server.

fathom store backup monday.db
fathom store verify monday.db
fathom store migrate sqlite:.fathom etcd://127.0.0.1:2379
"""

# Raising an etcd's revision takes one commit for each: some thousands a second.
RAISE_MAX = 1_000_000


def make_app() -> App:
    app = App(name="store", help=HELP)
    app.command(backup)
    app.command(restore)
    app.command(verify)
    app.command(migrate)
    return app


def backup(
    file: Annotated[Path, Parameter(help="File to write.")], /, *, data: Data = None, output: FileOutput = ""
) -> None:
    """Copy the store to FILE and verify the copy. Works while the API server runs.

    Prints the number of objects in the copy, and its revision.

    fathom store backup monday.db
    fathom store backup monday.db --data /var/lib/fathom
    """
    from fathom.store import backup as store_backup  # noqa: PLC0415  # See the package's docstring.

    data = existing_data(data)
    with _store_errors_as_problems(), waiting(f"backing up {data}"):
        verified = store_backup.backup(checked(data), file)
    _say_done(f"backed up {data} to", verified, output)


def restore(
    file: Annotated[Path, Parameter(help="Backup to read.")],
    /,
    *,
    data: NewData = DEFAULT_DATA,
    output: FileOutput = "",
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
        with waiting(f"restoring {file}"):
            verified = store_backup.restore(file, data)
    _say_done(f"restored {file} to", verified, output)


def verify(
    path: Annotated[
        Path | None, Parameter(help="Data directory, or backup. Default: that of the kubeconfig, or .fathom.")
    ] = None,
    /,
    *,
    output: FileOutput = "",
) -> int:
    """Check the store of a data directory, or a backup, for damage. Works while the API server runs.

    Prints that it is sound, with the number of objects; or what is damaged, and exits with 1.

    fathom store verify
    fathom store verify monday.db
    """
    from fathom.store import verify as store_verify  # noqa: PLC0415

    if path is None or path.is_dir() or not path.exists():
        path = existing_data(path)
    with _store_errors_as_problems(), waiting(f"verifying {path}"):
        verified = store_verify.verify(checked(path))
    if output:
        _say_done("", verified, output)
    elif verified.sound:
        say(f"sound: {_summary(verified)}")
    else:
        say(f"damaged: {verified.path}", *(f"  {problem}" for problem in verified.problems))
    return 0 if verified.sound else ANSWER_IS_NO


def migrate(
    source: Annotated[
        str, Parameter(help="URL of the store to copy: sqlite:DIR or etcd://HOST:PORT[,HOST:PORT].")
    ],
    target: Annotated[str, Parameter(help="URL of the store to fill. It must be empty.")],
    /,
    *,
    new_revisions: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Do not raise the target's revision above the source's. Restart every client afterwards.",
        ),
    ] = False,
    output: FileOutput = "",
) -> None:
    """Copy all objects from one store into another, between SQLite and etcd, and compare them.

    Stop the API servers first. Run it again if it was interrupted. The source stays as it is. Revisions are
    the target's own, above all of the source's, so that clients list again.

    Prints the number of objects, and the target's revision.

    fathom store migrate sqlite:.fathom etcd://127.0.0.1:2379
    fathom store migrate etcd://a:2379,b:2379 sqlite:/var/lib/fathom
    """
    import asyncio  # noqa: PLC0415  # See the package's docstring.

    _check_addresses(source, target)
    with _store_errors_as_problems():
        migrated = asyncio.run(_migrated(source, target, new_revisions=new_revisions))
    if output in DOCUMENTS:
        print_document(structs.asdict(migrated), output)
    elif output == "name":
        say(target)
    else:
        say(
            f"migrated {migrated.objects:,} objects from {source} to {target}: revision {migrated.revision}",
            f"start API servers with --store {target}; {source} is unchanged",
        )


def _check_addresses(source: str, target: str) -> None:
    from fathom.store.sqlite_file import DATABASE  # noqa: PLC0415

    if source == target:
        raise Problem("source and target are the same store")
    for url in (source, target):
        if url.startswith("memory:"):
            raise Problem("a store in memory cannot be migrated: give sqlite:DIR or etcd://HOST:PORT")
    if source.startswith("sqlite:"):
        data = _directory(source)
        if not (checked(data) / DATABASE).exists():
            raise Problem(f"{data} holds no store: give the data directory of an API server")
    if target.startswith("sqlite:"):
        checked(_directory(target))


def _directory(url: str) -> Path:
    return Path(url.removeprefix("sqlite:").removeprefix("//"))


async def _migrated(source_url: str, target_url: str, *, new_revisions: bool) -> Migrated:
    """Copy, raise the revision, finish: in this order, because an interrupted run is repeated."""
    from fathom.store import backup as store_backup  # noqa: PLC0415
    from fathom.store import migrate as store_migrate  # noqa: PLC0415

    to_sqlite = target_url.startswith("sqlite:")
    async with _opened(source_url) as source, _opened(target_url) as target:
        by_commits = not (to_sqlite or new_revisions)
        if by_commits:
            _check_distance(await source.revision(), await target.revision())
        migrated = await store_migrate.migrate(source, target, progress=_say_progress)
        if by_commits:
            await store_migrate.raise_revision(target, migrated.source_revision, progress=_say_progress)
    if to_sqlite:
        store_backup.raise_revision(_directory(target_url), migrated.source_revision)
    async with _opened(target_url) as target:
        revision = await store_migrate.finish(target)
        await target.compact(revision)
    return structs.replace(migrated, revision=revision)


def _check_distance(source: int, target: int) -> None:
    if source - target > RAISE_MAX:
        raise Problem(
            f"the source is at revision {source:,} and the target at {target:,}: raising it takes one commit"
            " for each. Add --new-revisions to leave that out, and restart every client, agent and controller"
            " afterwards, because their revisions mean nothing in the target"
        )


def _say_progress(text: str) -> None:
    say(text, err=True)


@contextlib.asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    from fathom.store.open import open_store  # noqa: PLC0415

    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


def _say_done(what: str, verified: Verified, output: str) -> None:
    if output == "name":
        say(str(verified.path))
    elif output:
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
