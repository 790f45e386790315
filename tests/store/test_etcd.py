"""What only the etcd engine has: servers that die, stop answering or refuse; streams that break; TLS."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from unittest import mock

import grpc
import pytest
from aetcd.rpc import rpc_pb2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.store.engines import EtcdServer, body, put, running_etcd, writes

from fathom.store.etcd import EtcdStore
from fathom.store.etcd_link import Closed, EtcdOptions
from fathom.store.etcd_watch import EtcdWatch
from fathom.store.etcd_wire import failed_commit, failed_read, reports_true_progress
from fathom.store.open import open_store
from fathom.store.protocol import (
    BadCommit,
    Batch,
    Change,
    Committed,
    Compacted,
    Entry,
    Expect,
    StoreUnavailable,
    Unknown,
)
from fathom.store.unusable import StoreUnusable

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def fragile_etcd() -> Iterator[EtcdServer]:
    """Not the one that the other tests share. It tells of progress on request only."""
    with running_etcd(durable=True) as server:
        yield server


def store_on(server: EtcdServer, prefix: str = "/fathom", timeout_s: float = 0.5) -> EtcdStore:
    return EtcdStore(EtcdOptions(endpoints=(server.endpoint,), prefix=prefix, request_timeout_s=timeout_s))


async def committed(store: EtcdStore, **values: object) -> int:
    outcome = await store.commit((), writes(**values))
    assert isinstance(outcome, Committed)
    return outcome.revision


async def taken(watch: AsyncIterator[Batch], count: int) -> list[Change]:
    changes: list[Change] = []
    async with asyncio.timeout(20):
        while len(changes) < count:
            changes += (await anext(watch)).changes
    return changes


# Unknown or surely not


async def test_a_server_that_stops_answering_leaves_the_outcome_unknown(fragile_etcd: EtcdServer) -> None:
    store = store_on(fragile_etcd, "/stopped")
    revision = await committed(store, a=1)
    fragile_etcd.pause()
    try:
        outcome = await store.commit([Expect("/a", revision)], writes(a=2))
        assert isinstance(outcome, Unknown)
        assert "DEADLINE_EXCEEDED" in outcome.cause
        with pytest.raises(StoreUnavailable):
            await store.get("/a")
    finally:
        fragile_etcd.resume()
    async with asyncio.timeout(10):
        while True:  # The request sits in the server's socket: it may well be done now.
            try:
                entry = await store.get("/a")
                break
            except StoreUnavailable:
                await asyncio.sleep(0.05)
    assert entry in (
        Entry("/a", body(1), revision, revision),
        Entry("/a", body(2), revision + 1, revision),
    )
    await store.close()


async def test_a_store_that_is_closed_says_so_to_those_who_wait_for_it(fragile_etcd: EtcdServer) -> None:
    """gRPC would have them believe that they themselves were cancelled."""
    store = store_on(fragile_etcd, "/closed", timeout_s=20)
    revision = await committed(store, a=1)
    fragile_etcd.pause()
    try:
        asked = [
            asyncio.ensure_future(store.get("/a")),
            asyncio.ensure_future(store.commit((), writes(a=2))),
            asyncio.ensure_future(anext(store.watch("", after=revision))),
        ]
        await asyncio.sleep(0.2)
        await store.close()
        async with asyncio.timeout(10):
            told = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        fragile_etcd.resume()
    assert [type(one) for one in told] == [Closed, Unknown, StoreUnavailable]


async def test_a_call_that_begins_after_the_store_was_closed_is_told_so_too(fragile_etcd: EtcdServer) -> None:
    store = store_on(fragile_etcd, "/closed-between")
    revision = await committed(store, a=1)
    stubs, watch = await store._link.ready(), store.watch("", after=revision)
    await store._link.close()
    with pytest.raises(StoreUnavailable, match="the store is closed"):
        await store._link.call(stubs, stubs.kv.Range, rpc_pb2.RangeRequest(key=b"a"))
    assert isinstance(watch, EtcdWatch)
    told = pytest.raises(StoreUnavailable, match="the store is closed")
    with mock.patch.object(store._link, "ready", return_value=stubs), told:
        await watch._connect()


async def test_a_server_that_is_not_there_surely_did_not_commit(fragile_etcd: EtcdServer) -> None:
    store = store_on(fragile_etcd, "/dead")
    revision = await committed(store, a=1)
    fragile_etcd.kill()
    try:
        await asyncio.sleep(0.2)  # Until the channel has noticed.
        with pytest.raises(StoreUnavailable, match="no etcd answers at"):
            await store.commit((), writes(a=2))
        with pytest.raises(StoreUnavailable):
            await store.range("")
    finally:
        fragile_etcd.start()
    async with asyncio.timeout(20):
        while True:
            try:
                found = await store.get("/a")
                break
            except StoreUnavailable:
                await asyncio.sleep(0.05)
    assert found == Entry("/a", body(1), revision, revision)
    await store.close()


async def test_every_acknowledged_commit_survives_the_servers_death(fragile_etcd: EtcdServer) -> None:
    """And whatever else happened to a commit, it happened wholly or not at all."""
    store = store_on(fragile_etcd, "/killed", timeout_s=2.0)
    acknowledged: dict[int, int] = {}

    async def write(start: int) -> None:
        for number in range(start, start + 400):
            try:
                outcome = await store.commit(
                    (), [put(f"/left/{number}", number), put(f"/right/{number}", number)]
                )
            except StoreUnavailable:
                await asyncio.sleep(0.02)
                continue
            if isinstance(outcome, Committed):
                acknowledged[number] = outcome.revision

    writing = [asyncio.ensure_future(write(1000 * n)) for n in range(8)]
    async with asyncio.timeout(20):
        while len(acknowledged) < 100:
            await asyncio.sleep(0.01)
    fragile_etcd.kill()
    fragile_etcd.start()
    await asyncio.gather(*writing)
    left, right = await store.range("/left/"), await store.range("/right/")
    found = {entry.body.obj["value"]: entry.revision for entry in left.entries}
    assert found == {entry.body.obj["value"]: entry.revision for entry in right.entries}
    assert found.items() >= acknowledged.items()
    assert acknowledged
    await store.close()


# Watches that outlive their stream


async def test_a_watch_goes_on_after_the_server_was_killed(fragile_etcd: EtcdServer) -> None:
    store = store_on(fragile_etcd, "/watched", timeout_s=2.0)
    start = await store.revision()
    watch = store.watch("/k/", after=start)
    expected: list[tuple[str, int]] = []

    async def write(number: int) -> None:
        async with asyncio.timeout(20):
            while True:
                try:
                    outcome = await store.commit((), [put(f"/k/{number}", number), put("/other")])
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
                    continue
                assert isinstance(outcome, Committed)
                expected.append((f"/k/{number}", outcome.revision))
                return

    for death in range(3):
        await write(10 * death)
        await write(10 * death + 1)
        waiting = asyncio.ensure_future(taken(watch, 3))
        await asyncio.sleep(0.1 * death)  # Before, while and after the events come.
        fragile_etcd.kill()
        fragile_etcd.start()
        await write(10 * death + 2)
        changes = await waiting
        assert [(change.key, change.revision) for change in changes] == expected[-3:]
    await store.close()


async def test_a_watch_that_was_away_while_all_was_compacted_is_told(fragile_etcd: EtcdServer) -> None:
    store, other = store_on(fragile_etcd, "/away"), store_on(fragile_etcd, "/away", timeout_s=5.0)
    start = await committed(store, a=1)
    watch = store.watch("", after=start)
    end = await committed(store, a=2)
    assert len(await taken(watch, 1)) == 1
    await store._link.close()  # The way is cut; what follows is not seen.
    last = await committed(other, a=3, b=1)
    await committed(other, b=None)
    await other.compact(last)
    again = other.watch("", after=end)
    with pytest.raises(Compacted):
        await anext(again)
    await other.close()


async def test_a_large_commit_comes_in_fragments_and_is_put_together(fragile_etcd: EtcdServer) -> None:
    """Two keys of 600 KB with what stood there before are more than etcd puts into one message."""
    store = store_on(fragile_etcd, "/large", timeout_s=5.0)
    first = await store.commit((), [put("/a", "1" * 600_000), put("/b", "1" * 600_000)])
    assert isinstance(first, Committed)
    watch = store.watch("", after=first.revision)
    second = await store.commit((), [put("/a", "2" * 600_000), put("/b", "2" * 600_000)])
    assert isinstance(second, Committed)
    for reader in (watch, store.watch("", after=first.revision)):
        async with asyncio.timeout(10):
            batch = await anext(reader)
        assert batch.revision == second.revision
        assert [(c.key, c.previous is not None) for c in batch.changes] == [("/a", True), ("/b", True)]
    await store.close()


async def test_requested_progress_arrives_by_either_way(fragile_etcd: EtcdServer) -> None:
    for trusted in (False, True):
        store = store_on(fragile_etcd, f"/progress-{trusted}")
        store._true_progress = trusted  # Nothing else is written now, so even an old server tells the truth.
        watch = store.watch("/quiet/", after=await store.revision())
        reading = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.2)
        assert not reading.done()
        revision = await committed(store, loud=1)
        assert await store.request_progress() is True
        batch = await asyncio.wait_for(reading, 5)
        assert batch.changes == ()
        assert batch.revision >= revision
        assert [entry.key for entry in (await store.range("")).entries] == ["/loud"]
        await store.close()


async def test_markers_of_progress_are_no_keys(fragile_etcd: EtcdServer) -> None:
    store = store_on(fragile_etcd, "/marked")
    start = await committed(store, a=1)
    inner, outer = store.watch("/a/", after=start), store.watch("", after=start)
    reading = [asyncio.ensure_future(anext(watch)) for watch in (inner, outer)]
    await asyncio.sleep(0.1)
    await committed(store, **{"a/b": 1, "a/c": 1})
    assert await store.request_progress() is True
    await asyncio.gather(*reading)
    await committed(store, b=1)
    assert await store.request_progress() is True
    pages = [await store.range(""), await store.range("/a/"), await store.range("/", limit=3)]
    assert [[entry.key for entry in page.entries] for page in pages] == [
        ["/a", "/a/b", "/a/c", "/b"],
        ["/a/b", "/a/c"],
        ["/a", "/a/b", "/a/c"],
    ]
    changes = await taken(store.watch("", after=start), 3)
    assert [change.key for change in changes] == ["/a/b", "/a/c", "/b"]
    await store.close()


async def test_stores_that_share_an_etcd_do_not_see_each_other(fragile_etcd: EtcdServer) -> None:
    one, other = store_on(fragile_etcd, "/shared"), store_on(fragile_etcd, "/shared2")
    start = await one.revision()
    await committed(one, a=1)
    await committed(other, b=1)
    end = await committed(one, c=1)
    assert [entry.key for entry in (await one.range("")).entries] == ["/a", "/c"]
    assert [entry.key for entry in (await other.range("")).entries] == ["/b"]
    changes = await taken(one.watch("", after=start), 2)
    assert [(change.key, change.revision) for change in changes] == [("/a", start + 1), ("/c", end)]
    await one.close()
    await other.close()


async def test_another_endpoint_serves_when_the_first_is_dead(fragile_etcd: EtcdServer) -> None:
    options = EtcdOptions(endpoints=("127.0.0.1:1", fragile_etcd.endpoint), prefix="/second")
    store = EtcdStore(options)
    revision = await committed(store, a=1)
    assert len(await taken(store.watch("", after=revision - 1), 1)) == 1
    await store.close()


# Refusals


async def test_more_than_a_hundred_operations_are_refused_before_they_are_sent(
    fragile_etcd: EtcdServer,
) -> None:
    store = store_on(fragile_etcd)
    with pytest.raises(BadCommit, match="at most 100 operations in a transaction, not 101"):
        await store.commit((), [put(f"/k{n}") for n in range(101)])
    with pytest.raises(BadCommit, match="not 101"):
        await store.commit([Expect(f"/k{n}", 0) for n in range(101)], ())
    await store.close()


@pytest.mark.parametrize("size", [2_000_000, 5_000_000])
async def test_a_commit_that_is_too_large_is_refused(fragile_etcd: EtcdServer, size: int) -> None:
    store = store_on(fragile_etcd, timeout_s=5.0)
    with pytest.raises(BadCommit, match="etcd refuses the commit"):
        await store.commit((), [put("/large", "x" * size)])
    await store.close()


async def test_a_commit_into_a_full_etcd_may_have_been_written() -> None:
    """etcd applies the first transaction beyond its quota and answers that there is no space for it."""
    with running_etcd("--quota-backend-bytes=200000") as server:
        store = store_on(server)
        for number in range(2000):
            outcome = await store.commit((), [put(f"/k{number}", "x" * 9000)])
            if not isinstance(outcome, Committed):
                break
        assert isinstance(outcome, Unknown)
        assert "space exceeded" in outcome.cause
        assert len((await store.range("")).entries) in (number, number + 1)
        await store.close()


def test_an_etcd_without_room_is_never_a_sure_refusal() -> None:
    no_space = "etcdserver: mvcc: database space exceeded"
    assert isinstance(failed_commit(grpc.StatusCode.RESOURCE_EXHAUSTED, no_space), Unknown)


@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_only_a_sure_refusal_is_not_unknown(code: grpc.StatusCode) -> None:
    try:
        outcome: type = type(failed_commit(code, "why"))
    except (BadCommit, StoreUnavailable) as error:
        outcome = type(error)
    refused = {"RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FAILED_PRECONDITION"}
    refused |= {"UNIMPLEMENTED", "OUT_OF_RANGE"}
    bad = {"INVALID_ARGUMENT"}
    expected = BadCommit if code.name in bad else StoreUnavailable if code.name in refused else Unknown
    assert outcome is expected


def test_failed_reads_are_unavailable_unless_compacted() -> None:
    out_of_range = grpc.StatusCode.OUT_OF_RANGE
    compacted = failed_read(out_of_range, "etcdserver: mvcc: required revision has been compacted", 7)
    assert isinstance(compacted, Compacted)
    assert compacted.floor == 8
    assert isinstance(failed_read(grpc.StatusCode.INTERNAL, "compacted", 7), StoreUnavailable)


@pytest.mark.parametrize(
    ("version", "true"),
    [
        ("3.4.30", False),
        ("3.4.31", True),
        ("3.5.1", False),
        ("3.5.12", False),
        ("3.5.13", True),
        ("3.6.0", True),
        ("3.7.0-alpha.1", True),
        ("4.0.0", True),
        ("3.3.40", False),
        ("", False),
        ("new", False),
    ],
)
def test_which_servers_tell_the_truth_about_progress(version: str, true: bool) -> None:
    assert reports_true_progress(version) is true


# TLS


class Authority:
    """A CA in a directory, and certificates by it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
        certificate = self._signed(self._name, self._key.public_key(), ca=True)
        self.ca = self._write("ca.pem", certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key.public_key(), ca=False)
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return (
            self._write(f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{name}.key", encoded),
        )

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([local]), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(content)
        return path


async def test_certificates_on_both_sides(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    mine, my_key = authority.issue("client")
    server_side = (f"--cert-file={cert}", f"--key-file={key}", f"--trusted-ca-file={authority.ca}")
    with running_etcd(*server_side, "--client-cert-auth", scheme="https") as server:
        url = f"etcd://{server.endpoint}/tls?ca={authority.ca}"
        store = await open_store(f"{url}&cert={mine}&key={my_key}")
        assert isinstance(await store.commit((), writes(a=1)), Committed)
        assert [entry.key for entry in (await store.range("")).entries] == ["/a"]
        await store.close()
        for wrong in (url, f"etcd://{server.endpoint}", f"etcd://{server.endpoint}?tls=true"):
            with pytest.raises(StoreUnusable, match="are address, certificates and user right"):
                await open_store(wrong)
        with pytest.raises(StoreUnusable, match=r"cannot read .*: give a PEM file"):
            await open_store(f"etcd://{server.endpoint}?ca={tmp_path / 'gone'}")
