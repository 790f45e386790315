"""Who may read what a server keeps, and what a start does with a directory that it did not leave so."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.deep import first_few

from fathom.agent.host.files import File, write_volume
from fathom.agent.host.records import Records
from fathom.cli.main import run
from fathom.gateway.live import Memory
from fathom.record.journal import DiskJournal
from fathom.store.sqlite_file import create_if_absent
from fathom.supervise import LogFile

FATHOM = [sys.executable, "-m", "fathom.cli"]
NOBODY = 65534


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Whoever has a umask that takes nothing away must not have files that everybody can read."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def readable_by_others(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if mode(path) & 0o077)


@contextmanager
def serving(data: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    words = [*FATHOM, "serve", "api", "--data", str(data), "--port", "0", *arguments]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        while (line := process.stdout.readline()) and line != "ready\n":
            said.append(line.rstrip("\n"))
        try:
            yield process, said
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        finally:
            process.kill()


def refused(*arguments: str) -> str:
    done = subprocess.run(
        [*FATHOM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
    assert "FATHOM_DEBUG" not in done.stderr
    return done.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What a server has left that ran once."""
    directory = tmp_path / "data"
    with serving(directory):
        pass
    return directory


def store_at(directory: Path) -> Path:
    directory.mkdir(mode=0o700)
    create_if_absent(directory / "store.db")
    return directory / "store.db"


# Who may read.


def test_a_backup_and_what_is_restored_from_it_are_their_owners_alone(tmp_path: Path) -> None:
    store_at(tmp_path / "data")
    copy = tmp_path / "copy.db"
    assert run(["store", "backup", str(copy), "--data", str(tmp_path / "data")]) == 0
    assert run(["store", "restore", str(copy), "--data", str(tmp_path / "new")]) == 0
    assert (mode(copy), mode(tmp_path / "new")) == (0o600, 0o700)
    assert readable_by_others(tmp_path / "new") == []


def test_a_store_is_made_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    file = store_at(tmp_path / "data")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("INSERT INTO log VALUES (1, 'k', 1, 0, x'00')")
        connection.commit()
        assert {path.name for path in file.parent.iterdir()} == {"store.db", "store.db-wal", "store.db-shm"}
        assert readable_by_others(file.parent) == []


def test_a_server_leaves_nothing_that_others_can_read(data: Path) -> None:
    assert mode(data) == 0o700
    assert readable_by_others(data) == []


def test_what_parts_write_of_the_cluster_is_their_owners_alone(tmp_path: Path) -> None:
    LogFile(tmp_path / "logs" / "part.log").close()
    Memory(tmp_path / "gateway.json").keep(b"[]")
    pod = {"metadata": {"uid": "u1", "name": "a", "namespace": "default"}, "spec": {}}
    Records(tmp_path / "agent").keep_pod(pod, "127.0.0.1")
    write_volume(tmp_path / "volume", {"token": File(b"secret", 0o600)}, None)
    DiskJournal(tmp_path / "journals" / "scheduler").close()
    assert (mode(tmp_path / "journals"), mode(tmp_path / "journals" / "scheduler")) == (0o700, 0o700)
    for file in ("logs/part.log", "gateway.json", "agent/pods/u1/pod.json", "volume/token"):
        assert mode(tmp_path / file) & 0o077 == 0, file


def test_a_volumes_file_is_not_written_through_a_link_that_a_pod_has_made(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / ".token.new").symlink_to(precious)
    write_volume(tmp_path / "volume", {"token": File(b"secret", 0o644)}, None)
    assert precious.read_text() == "precious"
    assert (tmp_path / "volume" / "token").read_text() == "secret"


@pytest.mark.parametrize("loose", [0o777, 0o755, 0o750, 0o1777])
def test_a_data_directory_that_others_can_use_is_tightened_and_that_is_said(
    tmp_path: Path, loose: int
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "tokens.csv").write_text("")
    (data / "tokens.csv").chmod(0o666)
    (data / "mine.sh").touch(mode=0o755)  # Somebody may say `--data .`: what is not ours stays as it is.
    (data / "mine.sh").chmod(0o755)
    data.chmod(loose)
    with serving(data) as (_, said):
        assert (mode(data), mode(data / "tokens.csv")) == (0o700, 0o600)
    assert any(line.startswith("warning: ") and str(data) in line and "0700" in line for line in said), said
    assert readable_by_others(data) == ["mine.sh"]


def test_a_store_that_an_earlier_fathom_left_readable_is_tightened(data: Path) -> None:
    (data / "store.db").chmod(0o644)
    with serving(data):
        assert readable_by_others(data) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("command", [("serve", "api"), ("up", "--nodes", "0")])
def test_a_data_directory_of_somebody_else_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, NOBODY, NOBODY)
    told = refused(*command, "--data", str(data), "--port", "0")
    assert f"{data} belongs to user {NOBODY}" in told
    assert list(data.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_data_directory_behind_somebody_elses_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "real")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert f"{link} is a link of user {NOBODY}" in refused("serve", "api", "--data", str(link), "--port", "0")


def test_a_data_directory_behind_a_link_of_our_own_is_as_good(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "data").symlink_to(tmp_path / "real")
    with serving(tmp_path / "data") as (_, said):
        assert said
    assert (tmp_path / "real" / "store.db").is_file()


# What is missing.


@pytest.mark.parametrize("command", [("serve", "api"), ("up", "--nodes", "0")])
def test_a_cluster_that_lost_its_store_does_not_start_as_an_empty_one(
    data: Path, command: tuple[str, ...]
) -> None:
    (data / "store.db").unlink()
    told = refused(*command, "--data", str(data), "--port", "0")
    assert f"{data}/store.db is missing" in told
    assert "fathom store restore" in told
    assert "--new-store" in told
    assert not (data / "store.db").exists()


def test_an_empty_cluster_with_the_old_authority_can_be_asked_for(data: Path) -> None:
    (data / "store.db").unlink()
    authority = (data / "pki" / "ca.crt").read_bytes()
    with serving(data, "--new-store") as (_, said):
        assert said
    assert (data / "pki" / "ca.crt").read_bytes() == authority


def test_a_directory_that_another_store_was_used_with_has_none_and_needs_none(tmp_path: Path) -> None:
    for _ in range(2):
        with serving(tmp_path / "data", "--store", "memory:") as (_, said):
            assert said
    told = refused("serve", "api", "--data", str(tmp_path / "data"), "--port", "0")
    assert "--store" in told


def test_an_authority_of_ones_own_may_be_there_before_the_store(data: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    (new / "pki").mkdir(mode=0o700, parents=True)
    new.chmod(0o700)
    for name in ("ca.crt", "ca.key"):
        (new / "pki" / name).write_bytes((data / "pki" / name).read_bytes())
    with serving(new) as (_, said):
        assert said
    assert (new / "pki" / "ca.crt").read_bytes() == (data / "pki" / "ca.crt").read_bytes()


def test_a_new_authority_beside_an_old_store_is_said(data: Path) -> None:
    (data / "pki").rename(data.parent / "away")
    with serving(data) as (_, said):
        pass
    assert any("new CA" in line and "credentials" in line for line in said), said


def test_a_store_that_is_empty_or_a_link_is_refused(data: Path, tmp_path: Path) -> None:
    file = data / "store.db"
    kept = file.read_bytes()
    file.write_bytes(b"")
    assert "is missing or empty" in refused("serve", "api", "--data", str(data), "--port", "0")
    (tmp_path / "elsewhere.db").write_bytes(kept)
    for target in ("elsewhere.db", "nowhere.db"):
        file.unlink()
        file.symlink_to(tmp_path / target)
        told = refused("serve", "api", "--data", str(data), "--port", "0")
        assert f"{file} is a symbolic link" in told


def test_a_restore_over_a_running_cluster_or_an_existing_store_is_refused(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert run(["store", "backup", str(copy), "--data", str(data)]) == 0
    assert "holds a store already" in refused("store", "restore", str(copy), "--data", str(data))
    with serving(data):
        assert "is in use" in refused("store", "restore", str(copy), "--data", str(data))


# What a store may hold.

EXTRAS = [
    "CREATE TRIGGER evil AFTER INSERT ON log BEGIN DELETE FROM bounds; END",
    "CREATE VIEW evil AS SELECT * FROM log",
    "CREATE TABLE evil (x)",
    "CREATE INDEX evil ON log (created)",
    "CREATE TEMP TRIGGER ignored AFTER INSERT ON log BEGIN SELECT 1; END; CREATE TABLE evil (x)",
    "ALTER TABLE log ADD COLUMN evil INTEGER GENERATED ALWAYS AS (id + 1) VIRTUAL",
    "DROP INDEX log_by_key; CREATE INDEX log_by_key ON log (key, id, created) WHERE key <> 'evil'",
]


@pytest.mark.parametrize("extra", first_few(EXTRAS, 3))
def test_a_store_with_more_in_it_than_ours_has_is_unsound_everywhere(tmp_path: Path, extra: str) -> None:
    file = store_at(tmp_path / "data")
    copy = tmp_path / "copy.db"
    assert run(["store", "backup", str(copy), "--data", str(file.parent)]) == 0
    for one in (file, copy):
        with closing(sqlite3.connect(one)) as connection:
            connection.executescript(extra)
    for one in (file.parent, copy):
        done = subprocess.run(
            [*FATHOM, "store", "verify", str(one)], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (1, "")
        assert done.stdout.startswith("damaged: ")
        assert "evil" in done.stdout
    assert "did not create" in refused("store", "restore", str(copy), "--data", str(tmp_path / "new"))
    assert not (tmp_path / "new" / "store.db").exists()
    assert "did not create" in refused("store", "backup", str(tmp_path / "again"), "--data", str(file.parent))
    assert "did not create" in refused("serve", "api", "--data", str(file.parent), "--port", "0")
