"""`fathom cp` out of a container: the archive is the container's work, and it may be hostile."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from fathom.cli.objects.cp import _unpack


def archive(*members: tuple[str, bytes, str, bytes]) -> bytes:
    """(name, type, link, content)"""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        for name, kind, link, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size, info.mode = kind, link, len(content), 0o755
            file.addfile(info, io.BytesIO(content))
    return made.getvalue()


def unpacked(raw: bytes, target: Path, name: str = "report") -> list[str]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(raw)
    problems: list[Exception] = []
    _unpack(reading, name, target, problems)
    return list(map(str, problems))


FILE, DIRECTORY, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "authorized_keys").write_text("mine")
    (tmp_path / ".profile").write_text("mine")
    return tmp_path


@pytest.mark.parametrize(
    "members",
    [
        [("report", LINK, ".ssh", b""), ("report/authorized_keys", FILE, "", b"evil")],
        [("report", LINK, ".profile", b""), ("report", FILE, "", b"evil")],
        [("report", HARD, ".profile", b""), ("report", FILE, "", b"evil")],
        [
            ("report", DIRECTORY, "", b""),
            ("report/x", HARD, ".profile", b""),
            ("report/x", FILE, "", b"evil"),
        ],
        [
            ("report", DIRECTORY, "", b""),
            ("report/x", LINK, "../.ssh", b""),
            ("report/x/authorized_keys", FILE, "", b"evil"),
        ],
        [("report", DIRECTORY, "", b""), ("report/../.profile", FILE, "", b"evil")],
        [("report/../../evil", FILE, "", b"evil")],
        [("report/.ssh", LINK, "..", b""), ("report/.ssh/.ssh/authorized_keys", FILE, "", b"evil")],
    ],
)
def test_nothing_beside_the_target_is_written(
    members: list[tuple[str, bytes, str, bytes]], home: Path
) -> None:
    unpacked(archive(*members), home / "report")
    found = {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}
    beside = {name: text for name, text in found.items() if not name.startswith("report")}
    assert beside == {".ssh/authorized_keys": "mine", ".profile": "mine"}
    assert not (home.parent / "evil").exists()
    assert not any(path.is_symlink() for path in home.rglob("*"))


def test_files_directories_and_links_within_the_copy_arrive(home: Path) -> None:
    raw = archive(
        ("report", DIRECTORY, "", b""),
        ("report/a", FILE, "", b"a"),
        ("report/sub", DIRECTORY, "", b""),
        ("report/sub/here", LINK, "../a", b""),
        ("report/sub/b", FILE, "", b"b"),
        ("report/again", HARD, "report/sub/b", b""),
        ("report/loop", LINK, "loop", b""),
    )
    for _ in range(2):  # Into nothing, and over what is there.
        assert unpacked(raw, home / "copy") == []
        there = [path for path in (home / "copy").rglob("*") if path.name != "loop"]
        found = {path.name: path.is_dir() or path.read_text() for path in there}
        assert found == {"a": "a", "sub": True, "b": "b", "here": "a", "again": "b"}
    assert (home / "copy" / "sub" / "here").readlink() == Path("../a")


def test_links_of_the_users_own_in_an_older_copy_are_not_written_through(home: Path) -> None:
    (home / "copy").mkdir()
    (home / "copy" / "keys").symlink_to("../.ssh")
    raw = archive(("report", DIRECTORY, "", b""), ("report/keys/authorized_keys", FILE, "", b"evil"))
    assert len(unpacked(raw, home / "copy")) == 1
    assert (home / ".ssh" / "authorized_keys").read_text() == "mine"


def test_links_that_lead_out_by_each_other_are_not_made(home: Path) -> None:
    raw = archive(
        ("report", DIRECTORY, "", b""),
        ("report/d", DIRECTORY, "", b""),
        ("report/d/e", DIRECTORY, "", b""),
        ("report/d/e/up", LINK, "../..", b""),
        ("report/out", LINK, "d/e/up/../.profile", b""),
    )
    assert unpacked(raw, home / "copy") == [f"{home / 'copy' / 'out'} leads out of the copy"]
    assert not any(path.is_symlink() for path in home.rglob("*"))


def test_one_file_takes_the_place_of_another(home: Path) -> None:
    (home / "report").write_text("old")
    assert unpacked(archive(("report", FILE, "", b"new")), home / "report") == []
    assert (home / "report").read_text() == "new"


def test_what_was_not_asked_for_is_refused(home: Path) -> None:
    assert unpacked(archive(("other", FILE, "", b"x")), home / "report") == [
        "the archive has 'other' besides 'report'"
    ]
    assert not (home / "other").exists()
