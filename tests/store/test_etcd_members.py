"""Members of an etcd that raise alarms, disagree or were replaced; and etcd's own users."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.engines import EtcdServer, put, running_etcd, writes

from fathom.store import etcd_members
from fathom.store.etcd import EtcdStore
from fathom.store.etcd_link import EtcdOptions
from fathom.store.etcd_members import FULL, STRANGERS, Disagreement, MemberStatus, alarm_problem, disagreement
from fathom.store.open import open_store
from fathom.store.protocol import (
    Committed,
    Compacted,
    Delete,
    FutureRevision,
    StoreUnavailable,
    Unknown,
    WentBack,
)
from fathom.store.unusable import StoreUnusable


def status(revision: int, applied: int, *alarms: str, cluster: int = 1) -> MemberStatus:
    return MemberStatus(cluster, revision, applied, alarms)


def test_members_that_applied_the_same_entries_must_be_at_the_same_revision() -> None:
    assert disagreement([status(5, 10), status(4, 9), status(5, 10)]) is None
    assert disagreement([status(5, 10), status(7, 10), status(4, 9)]) == Disagreement((5, 7))
    assert Disagreement((5, 7)).text() == (
        "members of etcd disagree: after the same raft entries they are at revisions 5 and 7; replace the one"
        " that is wrong"
    )


def test_alarms_are_told_the_worst_first() -> None:
    full, corrupt = "memberID:1 alarm:NOSPACE ", "memberID:2 alarm:CORRUPT "
    assert alarm_problem([status(5, 10), status(5, 10)]) == ""
    assert alarm_problem([status(5, 10), status(5, 10, full)]) == FULL
    assert alarm_problem([status(5, 10, full), status(5, 10, corrupt)]) == etcd_members.CORRUPT
    assert alarm_problem([status(5, 10), status(5, 10, cluster=2)]) == STRANGERS


def test_an_etcd_that_cannot_answer_is_a_problem_before_anybody_asks_it() -> None:
    alone = MemberStatus(1, 5, 10, ("etcdserver: no leader",), has_leader=False)
    assert alarm_problem([]) == etcd_members.SILENT
    assert alarm_problem([alone]) == etcd_members.NO_LEADER
    assert alarm_problem([alone, status(5, 10)]) == ""


@pytest.mark.usefixtures("fast_looks")
async def test_an_etcd_that_is_away_is_told_without_a_request() -> None:
    store = EtcdStore(EtcdOptions(("127.0.0.1:1",), connect_timeout_s=0.2, request_timeout_s=0.5))
    assert await problem_of(store, wanted=True) == etcd_members.SILENT
    await store.close()


def options_of(*servers: EtcdServer, prefix: str = "/fathom") -> EtcdOptions:
    return EtcdOptions(
        endpoints=tuple(server.endpoint for server in servers), prefix=prefix, request_timeout_s=5.0
    )


def etcdctl(server: EtcdServer, *arguments: str) -> str:
    command = [server.binary("etcdctl"), f"--endpoints={server.endpoint}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout


async def problem_of(store: EtcdStore, wanted: bool) -> str:
    async with asyncio.timeout(20):
        while bool(store.problem()) is not wanted:
            await asyncio.sleep(0.05)
    return store.problem()


@pytest.fixture
def fast_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_members, "LOOK_S", 0.05)
    monkeypatch.setattr(etcd_members, "FULL_LOOK_S", 0.05)


@pytest.mark.live
@pytest.mark.usefixtures("fast_looks")
async def test_a_full_etcd_refuses_what_is_put_says_why_and_recovers() -> None:
    with running_etcd("--quota-backend-bytes=200000") as server:
        store = EtcdStore(options_of(server))
        while isinstance(await store.commit((), [put("/k", "x" * 9000)]), Committed):
            pass
        assert store.problem() == FULL
        with pytest.raises(StoreUnavailable, match="alarm NOSPACE"):
            await store.commit((), writes(a=1))
        # An old etcd, as that of the tests, refuses deletions too, with an error that leaves it open.
        assert isinstance(await store.commit((), [Delete("/k")]), Committed | Unknown)
        await store.compact(await store.revision())
        etcdctl(server, "defrag")
        with pytest.raises(StoreUnavailable, match="alarm NOSPACE"):
            await store.commit((), writes(a=1))
        etcdctl(server, "alarm", "disarm")
        await problem_of(store, wanted=False)
        assert isinstance(await store.commit((), writes(a=1)), Committed)
        await store.close()


@pytest.mark.live
@pytest.mark.usefixtures("fast_looks")
async def test_endpoints_of_different_clusters_are_noticed() -> None:
    with running_etcd() as one, running_etcd("--initial-cluster-token=another") as other:
        store = EtcdStore(options_of(one, other))
        await store.commit((), writes(a=1))
        assert await problem_of(store, wanted=True) == STRANGERS
        await store.close()


@pytest.mark.live
async def test_a_member_behind_what_was_read_is_passed_over_for_another() -> None:
    """Two lone servers are as two members that disagree."""
    with running_etcd() as ahead, running_etcd() as behind:
        store = EtcdStore(options_of(behind, ahead))
        for number in range(5):
            await EtcdStore(options_of(ahead)).commit((), writes(a=number))
        seen = await EtcdStore(options_of(ahead)).revision()
        store.saw(seen)
        assert await store.revision() == seen
        entry = await store.get("/a")
        assert entry is not None
        assert entry.body.obj["value"] == 4
        await store.close()


@pytest.mark.live
async def test_an_etcd_that_went_back_is_told_until_the_reader_accepts_it(tmp_path: Path) -> None:
    with running_etcd() as server:
        store = EtcdStore(options_of(server))
        for number in range(5):
            await store.commit((), writes(a=number))
        seen = await store.revision()
        watch = store.watch("", after=seen)
        server.kill()
        (tmp_path / "empty").mkdir()
        empty = EtcdServer(tmp_path / "empty", ports=server.ports)
        try:
            with pytest.raises(FutureRevision) as raised:
                await asyncio.wait_for(anext(watch), 20)
            assert raised.value.current < seen
            with pytest.raises(WentBack):
                await store.get("/a")
            store.accept_past()
            assert await store.get("/a") is None
        finally:
            empty.kill()
        await store.close()


@pytest.mark.live
async def test_when_members_agree_again_those_who_watch_read_everything_again() -> None:
    with running_etcd() as server:
        store = EtcdStore(options_of(server))
        watch = store.watch("", after=await store.revision())
        await store.commit((), writes(a=1))
        await anext(watch)
        reading = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)
        members = store._members
        for _ in range(etcd_members.DISAGREE_LOOKS):
            members._note(Disagreement((5, 7)))
        assert "members of etcd disagree" in store.problem()
        members._note(None)
        with pytest.raises(Compacted):
            await asyncio.wait_for(reading, 10)
        await store.close()


# etcd's own users


@pytest.fixture(scope="module")
def guarded() -> Iterator[EtcdServer]:
    with running_etcd("--auth-token-ttl=1") as server:
        etcdctl(server, "user", "add", "root:top")
        etcdctl(server, "user", "grant-role", "root", "root")
        etcdctl(server, "role", "add", "fathom")
        etcdctl(server, "role", "grant-permission", "fathom", "readwrite", "/fathom/", "--prefix=true")
        etcdctl(server, "user", "add", "fathom:secret")
        etcdctl(server, "user", "grant-role", "fathom", "fathom")
        etcdctl(server, "auth", "enable")
        yield server


def address(server: EtcdServer, user: str, password: Path) -> str:
    return f"etcd://{server.endpoint}?user={user}&password-file={password}"


@pytest.mark.live
async def test_a_user_with_a_password_reads_writes_and_watches(guarded: EtcdServer, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    store = await open_store(address(guarded, "fathom", password))
    start = await store.revision()
    watch = store.watch("/", after=start)
    assert isinstance(await store.commit((), writes(a=1)), Committed)
    batch = await asyncio.wait_for(anext(watch), 10)
    assert [change.key for change in batch.changes] == ["/a"]
    await asyncio.sleep(2.5)  # The token's time to live is over.
    assert isinstance(await store.commit((), writes(a=2)), Committed)
    entry = await store.get("/a")
    assert entry is not None
    assert entry.body.obj["value"] == 2
    await store.close()


@pytest.mark.live
@pytest.mark.parametrize(
    ("user", "password", "message"),
    [
        ("fathom", "wrong", "etcd does not accept the user 'fathom': etcdserver: authentication failed"),
        ("", "", "user name is empty"),
    ],
)
async def test_a_wrong_user_is_one_clear_line(
    guarded: EtcdServer, tmp_path: Path, user: str, password: str, message: str
) -> None:
    (tmp_path / "password").write_text(password)
    url = address(guarded, user, tmp_path / "password") if user else f"etcd://{guarded.endpoint}"
    with pytest.raises(StoreUnusable, match=message) as raised:
        await open_store(url)
    assert str(raised.value).endswith(": is etcd running, and are address, certificates and user right?")
