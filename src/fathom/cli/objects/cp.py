"""`fathom cp`: copy files to and from containers, with the `tar` that is there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tarfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.exec import READ_BYTES, STDERR, Container, Read, container_of, run_command
from fathom.cli.objects.logs import pods_named
from fathom.cli.objects.websocket import PodConnections
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem


class FilePlace(msgspec.Struct, frozen=True):
    """`pod: ''`: on this machine."""

    pod: str
    path: str


def place_of(word: str) -> FilePlace:
    """`web-1:/pod/a` is in a pod; what has a slash before its colon, or no colon, is here. Raises Problem."""
    pod, colon, path = word.partition(":")
    if not colon or "/" in pod:
        return FilePlace("", word)
    if not pod or not path:
        raise Problem(f"a file in a pod reads POD:PATH, for example web-1:/pod/a, not {word!r}")
    return FilePlace(pod, path)


def cp(
    source: Annotated[str, Parameter(name="FROM", help="A file or directory: here, or POD:PATH.")],
    target: Annotated[
        str, Parameter(name="TO", help="Where it is copied to, and as what: here, or POD:PATH.")
    ],
    /,
    *,
    container: Container = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Copy a file or a directory into a container, or out of it. The container needs `tar`.

    Prints nothing, or what went wrong.

    fathom cp ./settings.toml web-1:/pod/settings.toml
    fathom cp web-1:/pod/report ./report -c main
    """
    origin, goal = place_of(source), place_of(target)
    if bool(origin.pod) == bool(goal.pod):
        raise Problem("one of the two must be in a pod, as POD:PATH, and the other on this machine")
    at, config = chosen_namespace(namespace, kubeconfig), found_kubeconfig(kubeconfig)
    pod = pods_named(ServerConnection(config), (origin.pod or goal.pod,), at, "")[0]
    where = PodConnections(config, at, str(pod["metadata"]["name"]))
    chosen = container_of(pod, container)
    return _copy_out(where, chosen, origin, goal) if origin.pod else _copy_in(where, chosen, origin, goal)


def _copy_in(where: PodConnections, container: str, origin: FilePlace, goal: FilePlace) -> int:
    path = Path(origin.path).absolute()
    if not path.exists():
        raise Problem(f"{origin.path} does not exist")
    folder, name = _split(goal.path, path.name)
    reading, writing = os.pipe()
    packing = threading.Thread(target=_pack, args=(path, name, writing), daemon=True)
    packing.start()
    command = ["tar", "-xmf", "-", "-C", folder]
    try:
        return _run(where, container, command, read=lambda: os.read(reading, READ_BYTES), write=None)
    finally:
        os.close(reading)


def _pack(path: Path, name: str, fd: int) -> None:
    """In a thread; ends when nobody reads any more."""
    with (
        contextlib.suppress(BrokenPipeError),
        os.fdopen(fd, "wb") as file,
        tarfile.open(fileobj=file, mode="w|") as archive,
    ):
        archive.add(path, arcname=name)


def _copy_out(where: PodConnections, container: str, origin: FilePlace, goal: FilePlace) -> int:
    folder, name = _split(origin.path, "")
    target = Path(goal.path)
    if target.is_dir():
        target = target / name
    if not target.absolute().parent.is_dir():
        raise Problem(f"{target.absolute().parent} is not a directory")
    reading, writing = os.pipe()
    problems: list[Exception] = []
    unpacking = threading.Thread(target=_unpack, args=(reading, name, target.absolute(), problems))
    unpacking.start()
    command = ["tar", "-cf", "-", "-C", folder, "--", name]
    try:
        code = _run(where, container, command, read=None, write=writing)
    finally:
        os.close(writing)
        unpacking.join()
    if problems and not code:
        raise Problem(f"{target} cannot be written: {problems[0]}", exit_code=ANSWER_IS_NO)
    return code


def _unpack(fd: int, name: str, target: Path, problems: list[Exception]) -> None:
    """The archive is the container's work: nothing in it is written outside of the target, through no link
    either, and nothing gets an owner or a device."""
    with os.fdopen(fd, "rb") as file:
        try:
            with tarfile.open(fileobj=file, mode="r|") as archive:
                _extract(archive, name, target)
        except (tarfile.TarError, OSError) as error:
            problems.append(error)
        while file.read(READ_BYTES):  # Or the other end would wait for us.
            pass


def _extract(archive: tarfile.TarFile, name: str, target: Path) -> None:
    """`filter="data"` keeps members in the directory that they are extracted to, which is the target itself:
    beside it are files of the user. Links are made last, so that nothing is written through one."""
    links: dict[Path, str] = {}
    for member in archive:
        below = _below(member.name, name)
        if member.issym():
            links[target / below] = member.linkname
        elif member.islnk():
            first = target / _below(member.linkname, name)
            _check_within(first, target)
            shutil.copyfile(first, _new(target / below, target))
        elif member.isdir() and not below:
            target.mkdir(exist_ok=True)
        elif below:
            member.name = below
            archive.extract(member, target, filter="data")
        else:
            member.name = target.name
            archive.extract(member, target.parent, filter="data")
    _make_links(links, target)


def _below(path: str, name: str) -> str:
    below = path.removeprefix(name)
    if not path.startswith(name) or (below and not below.startswith("/")):
        raise tarfile.TarError(f"the archive has {path!r} besides {name!r}")
    return below.strip("/")


def _make_links(links: Mapping[Path, str], target: Path) -> None:
    for place, leads_to in links.items():
        _new(place, target).symlink_to(leads_to)
    try:
        for place in links:
            _check_within(place, target)
    except tarfile.TarError:
        for place in links:
            place.unlink()
        raise


def _new(place: Path, target: Path) -> Path:
    """The place, with nothing there."""
    _check_within(place.parent, target)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    return place


def _check_within(path: Path, target: Path) -> None:
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(target)):  # Loops are no error here.
        raise tarfile.TarError(f"{path} leads out of the copy")


def _run(
    where: PodConnections, container: str, command: list[str], *, read: Read | None, write: int | None
) -> int:
    def output(channel: int, data: bytes) -> None:
        fd = 2 if channel == STDERR or write is None else write
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    query = [("container", container), ("stdout", "true"), ("stderr", "true")]
    query += [("stdin", "true")] if read is not None else []
    query += [("command", word) for word in command]
    return asyncio.run(run_command(where, query, read, output))


def _split(path: str, own: str) -> tuple[str, str]:
    """(directory, name): `dir/` takes the name of what is copied there, if that is known. Raises Problem."""
    if own and path.endswith("/"):
        return path, own
    folder, name = os.path.split(path.rstrip("/"))
    if name in {"", ".", ".."}:
        raise Problem(f"name a file or directory, not {path!r}")
    return folder or ("/" if path.startswith("/") else "."), name
