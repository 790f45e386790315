"""Addresses of stores, understood or refused in one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.store.etcd_link import EtcdOptions
from fathom.store.memory import MemoryStore
from fathom.store.open import etcd_options, open_store
from fathom.store.sqlite import SqliteStore
from fathom.store.unusable import BadStoreUrl, StoreUnusable


async def test_memory_and_sqlite_by_their_address(tmp_path: Path) -> None:
    memory = await open_store("memory:")
    sqlite = await open_store(f"sqlite:{tmp_path / 'data'}")
    assert [type(store) for store in (memory, sqlite)] == [MemoryStore, SqliteStore]
    assert (tmp_path / "data" / "store.db").exists()
    await memory.close()
    await sqlite.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory:x",
        "sqlite:",
        "postgres://host",
        "/a/path",
        "etcd:",
        "etcd:host",
        "etcd://",
        "etcd:///prefix",
        "etcd://host:port",
        "etcd://host:2379,",
        "etcd://user:word@host:2379",
        "etcd://host?what=1",
        "etcd://host?cert=a",
        "etcd://host?timeout=soon",
        "etcd://host?timeout=-1",
        "etcd://host?user=me",
        "etcd://host?password-file=/x",
    ],
)
async def test_an_address_that_makes_no_sense_is_one_clear_line(url: str) -> None:
    with pytest.raises(BadStoreUrl) as raised:
        await open_store(url)
    assert str(raised.value).startswith(f"cannot open a store at {url!r}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("etcd://one", EtcdOptions(("one:2379",))),
        ("etcd://one:1,two:2/", EtcdOptions(("one:1", "two:2"))),
        ("etcd://[::1],[::2]:5/a/b/", EtcdOptions(("[::1]:2379", "[::2]:5"), prefix="/a/b")),
        ("etcd://one?tls=true&timeout=1.5", EtcdOptions(("one:2379",), tls=True, request_timeout_s=1.5)),
        (
            "etcd://one?ca=/x/ca&cert=/x/c&key=k%20k",
            EtcdOptions(("one:2379",), tls=True, ca=Path("/x/ca"), cert=Path("/x/c"), key=Path("k k")),
        ),
        (
            "etcd://one?user=me&password-file=/x/p",
            EtcdOptions(("one:2379",), user="me", password_file=Path("/x/p")),
        ),
    ],
)
def test_etcds_address_says_where_and_how(url: str, options: EtcdOptions) -> None:
    assert etcd_options(url) == options


async def test_an_etcd_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(StoreUnusable, match=r"no etcd answers at 127\.0\.0\.1:1: is etcd running") as raised:
        await open_store("etcd://127.0.0.1:1")
    assert "\n" not in str(raised.value)


def fathom_without_etcd(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As on a machine where the extra was not installed, for this process and for those that it starts."""
    absent = tmp_path / "absent"
    absent.mkdir()
    for name in ("grpc", "aetcd"):
        (absent / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}')\n")
    command = [sys.executable, "-c", "from fathom.cli.entry import main; main()", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(absent)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.live
@pytest.mark.parametrize("command", [("serve", "api"), ("up", "--nodes", "1")], ids=["serve", "up"])
def test_without_the_extra_a_store_in_etcd_says_what_to_install(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    data = ("--data", str(tmp_path / "data"), "--port", "0", "--store", "etcd://127.0.0.1:1")
    answer = fathom_without_etcd(tmp_path, *command, *data)
    assert answer.returncode != 0
    (line,) = [line for line in (answer.stdout + answer.stderr).splitlines() if "etcd support" in line]
    assert line.endswith("etcd support is not installed; install it with: pip install 'fathom-control[etcd]'")
    assert "Traceback" not in answer.stdout + answer.stderr


@pytest.mark.live
def test_commands_work_without_the_extra(tmp_path: Path) -> None:
    answer = fathom_without_etcd(tmp_path, "--help")
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.live
def test_a_server_loads_grpc_and_protobuf_for_etcd_alone() -> None:
    parts = "fathom.serve, fathom.supervise, fathom.store.open, fathom.kube.definitions.protobuf"
    program = f"import sys, {parts}; print({{'grpc', 'aetcd', 'google.protobuf'}} & set(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert answer.stdout == "set()\n"
