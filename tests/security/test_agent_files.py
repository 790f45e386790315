"""What the agent does itself in directories that a pod can write to: it follows no links, reads no file under
a second name, waits for no pipes, and removes what is there and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.objects import container, pod
from tests.agent.test_shim import launched, waited
from tests.security.pod_clusters import seen_of

from fathom.agent.host.directories import link_mounts, make_places
from fathom.agent.host.envfiles import read_env_files
from fathom.agent.host.environment import Surroundings, Unresolved
from fathom.agent.host.files import File, write_volume
from fathom.agent.host.logs import LogOptions, read_log
from fathom.agent.host.mounts import PodPaths, mounts_of
from fathom.agent.safe_files import closing, make_directory, open_top, remove_path
from fathom.model.objects import Obj
from fathom.supervise import python

TURNS = 300


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    (place / "site").mkdir(parents=True)
    (place / "site/kept").write_text("A='kept'\n")
    (place / "site").chmod(0o700)
    return place


def mounting(place: Path, volume: Obj, below: str) -> str:
    around = Surroundings(pod(spec={"volumes": [{"name": "v", **volume}]}), "127.130.0.2", "127.130.0.1")
    whole = container(volumeMounts=[{"name": "v", "mountPath": "/in", "subPath": below}])
    paths = PodPaths(place / "volumes", place / "message", hide=(str(place / "outside/hidden"),))
    return str(mounts_of(whole, around, {}, paths)[0])


@pytest.mark.parametrize("below", ["out", "out/new", "real/out/new", "out/kept", "gone/new"])
@pytest.mark.parametrize("kind", ["emptyDir", "hostPath", "configMap"])
def test_a_sub_path_stays_in_its_volume(tmp_path: Path, outside: Path, below: str, kind: str) -> None:
    volume = tmp_path / "volumes/v"
    (volume / "real").mkdir(parents=True)
    for link, to in (("out", "site"), ("real/out", "site"), ("gone", "gone")):
        (volume / link).symlink_to(outside / to)
    before = seen_of(outside)
    with pytest.raises(Unresolved, match=r'"v" of container "main": .* is a symbolic link'):
        mounting(tmp_path, {kind: {"path": str(volume)} if kind == "hostPath" else {}}, below)
    assert seen_of(outside) == before


@pytest.mark.parametrize("below", ["a/" * 3000, "x" * 300, "a\0b", "a/../../b", "/etc", ".."])
def test_a_sub_path_that_is_no_path_in_a_volume_makes_nothing(tmp_path: Path, below: str) -> None:
    (tmp_path / "volumes/v").mkdir(parents=True)
    with pytest.raises(Unresolved, match="failed to prepare subPath"):
        mounting(tmp_path, {"emptyDir": {}}, below)
    assert list((tmp_path / "volumes/v").iterdir()) == []


@contextlib.contextmanager
def swapping(directory: Path, name: str, to: Path) -> Iterator[None]:
    """A directory and a link to somewhere else take turns under one name."""
    (directory / "dir").mkdir()
    (directory / "link").symlink_to(to)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for which in ("dir", "link"):
                try:
                    os.rename(directory / which, directory / name)
                    os.rename(directory / name, directory / which)
                except OSError:  # Somebody made a directory of that name.
                    os.rename(directory / name, directory / f"old{os.urandom(8).hex()}")

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_part_that_is_swapped_for_a_link_while_it_is_made_stays_in_its_volume(
    tmp_path: Path, outside: Path
) -> None:
    volume = tmp_path / "volumes/v"
    volume.mkdir(parents=True)
    volume.chmod(0o777)
    before = seen_of(outside)
    with swapping(volume, "x", outside / "site"):
        for number in range(TURNS):
            with contextlib.suppress(Unresolved):
                mounting(tmp_path, {"emptyDir": {}}, f"x/{number}/deep")
    assert seen_of(outside) == before


def asking(path: str, volume: str = "v") -> Obj:
    reference = {"volumeName": volume, "path": path, "key": "A"}
    return container(env=[{"name": "X", "valueFrom": {"fileKeyRef": reference}}])


def test_a_file_of_somebody_else_under_a_second_name_is_not_read_for_a_pod(
    tmp_path: Path, outside: Path
) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v/env").write_text("A='1'\n")
    assert read_env_files(asking("env"), tmp_path) == {("v", "env"): {"A": "1"}}
    os.link(outside / "site/kept", tmp_path / "v/hard")
    with pytest.raises(Unresolved, match="more than one name"):
        read_env_files(asking("hard"), tmp_path)
    (tmp_path / "w").symlink_to(outside / "site")
    for volume in ("w", "../tmp", "v/../outside/site"):
        with pytest.raises(Unresolved):
            read_env_files(asking("kept", volume), tmp_path)


def test_a_volume_is_not_written_through_links_that_are_in_it(tmp_path: Path, outside: Path) -> None:
    place = tmp_path / "volumes/v"
    place.mkdir(parents=True)
    (place / "key").symlink_to(outside / "site/kept")
    (place / ".key.new").symlink_to(outside / "site/kept")
    (place / ".new~").symlink_to(outside / "site/kept")
    (place / "gone").symlink_to(outside / "site")
    before = seen_of(outside)
    assert write_volume(place, {"key": File(b"new", 0o640)}, None)
    assert seen_of(outside) == before
    assert [(one.name, one.is_symlink(), one.read_bytes()) for one in place.iterdir()] == [
        ("key", False, b"new")
    ]
    (place / "dir").symlink_to(outside / "site")
    with pytest.raises(OSError, match="dir is a symbolic link"):
        write_volume(place, {"dir/kept": File(b"new")}, None)
    assert seen_of(outside) == before


@pytest.mark.parametrize("files", [None, {"kept": File(b"new")}])
def test_a_volume_that_became_a_link_is_neither_written_nor_given_away(
    tmp_path: Path, outside: Path, files: dict[str, File] | None
) -> None:
    (tmp_path / "volumes").mkdir()
    (tmp_path / "volumes/v").symlink_to(outside / "site")
    before = seen_of(outside)
    with pytest.raises(OSError, match="v is a symbolic link"):
        write_volume(tmp_path / "volumes/v", files, None, None)
    assert seen_of(outside) == before


def test_a_home_that_became_a_link_is_not_given_away(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "pod/home").mkdir(parents=True)
    (tmp_path / "pod/home/main").symlink_to(outside / "site")
    before = seen_of(outside)
    with pytest.raises(OSError, match="main is a symbolic link"):
        make_places(tmp_path / "pod", tmp_path / "run/0", container(), (os.getuid(), os.getgid()))
    assert seen_of(outside) == before


@pytest.mark.parametrize("to", ["/x/new", "/x/deep/new", "/x"])
def test_links_to_volumes_are_not_made_through_links_of_the_pod(
    tmp_path: Path, outside: Path, to: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "x").symlink_to(outside / "site")
    before = seen_of(outside)
    with contextlib.suppress(OSError):  # What has the name of the mount itself stays as it is.
        link_mounts(home, [{"top": str(tmp_path), "below": "volume", "from": str(tmp_path), "to": to}])
    assert seen_of(outside) == before


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_message_of_the_end_is_read_from_a_plain_file_only(
    tmp_path: Path, outside: Path, kind: str
) -> None:
    message = tmp_path / "message"
    if kind == "link":
        message.symlink_to(outside / "site/kept")
    else:
        os.mkfifo(message)
    launched(tmp_path, "true", message=str(message))
    assert waited(tmp_path / "exit.json")["message"] == ""


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_log_is_read_from_plain_files_only(tmp_path: Path, outside: Path, kind: str) -> None:
    (tmp_path / "run").mkdir()
    for name in ("log", "log.1"):
        if kind == "link":
            (tmp_path / "run" / name).symlink_to(outside / "site/kept")
        else:
            os.mkfifo(tmp_path / "run" / name)

    async def read() -> list[bytes]:
        return [chunk async for chunk in read_log(tmp_path / "run", LogOptions(), lambda: True)]

    assert asyncio.run(asyncio.wait_for(read(), 10)) == []


def test_a_tree_is_removed_however_it_was_left(tmp_path: Path, outside: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "shut/in/deep").mkdir(parents=True)
    (tree / "shut/in/file").touch()
    (tree / "out").symlink_to(outside)
    (tree / "shut/out").symlink_to(outside / "site")
    os.link(outside / "site/kept", tree / "shut/hard")
    os.mkfifo(tree / "pipe")
    for number in range(2500):
        (tree / f"many{number}").touch()
    (tree / ".removed-0").mkdir()
    for shut in ("shut/in", "shut"):
        (tree / shut).chmod(0)
    deep = os.open(tree, os.O_RDONLY)
    for _ in range(1200):  # Deeper than a path, and than Python's stack.
        os.mkdir("d", dir_fd=deep)
        above, deep = deep, os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(above)
    os.close(deep)
    before = seen_of(outside)
    remove_path(tree)
    remove_path(tree)  # Nothing is there: nothing is wrong.
    assert (not tree.exists(), seen_of(outside)) == (True, before)


def test_a_link_where_a_tree_was_is_removed_and_not_followed(tmp_path: Path, outside: Path) -> None:
    before = seen_of(outside)
    (tmp_path / "tree").symlink_to(outside)
    remove_path(tmp_path / "tree")
    assert (os.path.lexists(tmp_path / "tree"), seen_of(outside)) == (False, before)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_a_new_directory_has_the_rights_that_it_shall_have(tmp_path: Path, umask: int) -> None:
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes").chmod(0o2777)
    before = os.umask(umask)
    try:
        for where, mode, found in (
            ("", 0o755, 0o755),
            ("", 0o777, 0o777),
            ("", 0o2770, 0o2770),
            ("passes", 0o2777, 0o2777),
            ("passes", 0o755, 0o2755 if umask != 0o077 else 0o755),
        ):
            with closing(open_top(tmp_path / where)) as top, closing(make_directory(top, "new", mode=mode)):
                assert os.stat(tmp_path / where / "new").st_mode & 0o7777 == found
                os.rmdir("new", dir_fd=top)
    finally:
        os.umask(before)


def test_a_directory_put_in_the_place_of_a_new_one_keeps_its_rights(tmp_path: Path) -> None:
    """1. The agent makes a directory. 2. The pod moves somebody else's there. 3. That must not be opened."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").touch()
    (tmp_path / "private").chmod(0o700)
    over = threading.Event()

    def replace() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                os.rename(tmp_path / "new", tmp_path / "mine")
                os.rename(tmp_path / "private", tmp_path / "new")

    thread = threading.Thread(target=replace, daemon=True)
    thread.start()
    try:
        with closing(open_top(tmp_path)) as top:
            for _ in range(TURNS):
                with contextlib.suppress(OSError):
                    os.close(make_directory(top, "new", mode=0o777))
                for left in ("mine", "new"):
                    with contextlib.suppress(OSError):
                        os.rmdir(tmp_path / left)
                with contextlib.suppress(OSError):
                    os.rename(tmp_path / "new", tmp_path / "private")
    finally:
        over.set()
        thread.join()
    there = next(tmp_path / name for name in ("private", "new", "mine") if (tmp_path / name / "key").exists())
    assert there.stat().st_mode & 0o7777 == 0o700


def test_a_part_runs_no_module_of_the_directory_that_it_was_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod may be able to write there: /tmp."""
    for name in ("msgspec", "json", "fathom"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the code of a pod')")
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(python("--version"), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
