"""Addresses of stores, understood or refused in one clear line."""

from __future__ import annotations

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
    ],
)
def test_etcds_address_says_where_and_how(url: str, options: EtcdOptions) -> None:
    assert etcd_options(url) == options


async def test_an_etcd_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(StoreUnusable, match=r"no etcd answers at 127\.0\.0\.1:1: is etcd running") as raised:
        await open_store("etcd://127.0.0.1:1")
    assert "\n" not in str(raised.value)
