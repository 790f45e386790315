"""Whatever is sent, the fault is the sender's and is said so: no 500, no connection that loses its place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests.api.fuzzing import World, encoded
from tests.api.harness import Api, config_map
from tests.api.own.test_kinds import GOOD, own
from tests.api.test_http import MAPS, Client, speak
from tests.security.malformed import bent, filled

from fathom.api.http import Http
from fathom.api.http_limits import HEAD_BYTES_MAX, HEADERS_MAX, URL_BYTES_MAX
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.own import OWN_KINDS
from fathom.model.body import encode_json
from fathom.model.objects import Obj

ROOT = "/apis/fathom.dev/v1alpha1"
BY_KIND = {kind.kind: kind for kind in OWN_KINDS}
NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    one = World(tmp_path_factory.mktemp("world"))
    assert one.send("POST", "/api/v1/nodes", encoded(NODE)).status == 201
    yield one
    one.still_answers()
    one.close()


def whole(kind: Kind, name: str) -> Obj:
    """A good object with all that its schema knows beside."""
    assert kind.schema is not None
    spec = {**filled(kind.schema["properties"]["spec"]), **GOOD[kind.kind][1]}
    obj = own(kind.kind, name, spec)
    if kind.kind == "Reservation":
        obj["spec"]["nodeName"] = "n1"
        obj["spec"]["resources"] = {"cpu": "1"}
        obj["spec"]["awaits"] = [{"name": "p", "namespace": "default", "uid": "1"}]
        obj["spec"]["expiresAt"] = "2124-01-01T00:00:00Z"
    if "status" in kind.subresources:
        obj["status"] = filled(kind.schema["properties"]["status"])
    return obj


# Repair alone makes proposals, the server alone reviews; of limits only `default` is read, and it is there.
MADE = {"RepairProposal": 403, "OverrideReview": 403, "SteeringLimits": 422}


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.full)], ids=["some", "all"])
@pytest.mark.parametrize("name", sorted(GOOD))
def test_an_own_kind_that_is_wrong_in_one_place_is_refused_or_taken(
    world: World, name: str, step: int
) -> None:
    """`send` fails where the answer is a 500."""
    kind, path = BY_KIND[name], GOOD[name][0]
    good = own(name, "good", GOOD[name][1])
    assert world.send("POST", path, encoded(good)).status == MADE.get(name, 201)
    for number, (_, obj) in enumerate(islice(bent(whole(kind, "bad")), None, None, step)):
        obj["metadata"] = {**obj["metadata"], "name": f"bad-{number}"}
        made = world.send("POST", path, encoded(obj))
        if made.status == 201:
            remove(world, f"{path}/bad-{number}")
        change = {part: obj[part] for part in ("spec", "status") if part in obj}
        world.patch(f"{path}/good", change)
        if "status" in obj and "status" in kind.subresources:
            world.patch(f"{path}/good/status", {"status": obj["status"]})
    remove(world, f"{path}/good")


def remove(world: World, path: str) -> None:
    """No controller runs that would remove finalizers; the administrator may."""
    world.send("DELETE", path)
    world.patch(path, {"metadata": {"finalizers": None}})


BAD_UTF_8 = (
    b"\xff",
    b'{"x":"\xff"}',
    b'{"kind":"\xc3"}',
    b"\x80\x80",
    b'"\xed\xa0\x80"',
    b"\xf8\x88\x80\x80\x80",
)
TARGETS = (
    MAPS,
    f"{MAPS}/a",
    f"{MAPS}/a/status",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    f"{ROOT}/capacityclasses",
)


@pytest.mark.parametrize("media", ["application/json", "application/yaml", "application/merge-patch+json"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
def test_a_body_that_is_no_utf_8_is_refused(world: World, method: str, media: str) -> None:
    world.send("POST", MAPS, encoded(config_map("a")))
    for target in TARGETS:
        for body in BAD_UTF_8:
            answer = world.send(method, target, body, headers={"content-type": media})
            assert method == "GET" or 400 <= answer.status < 500, (method, target, body)


def test_a_field_that_nobody_knows_is_read_too(world: World) -> None:
    for field in (
        b'"zzz":"\xff"',
        b'"data":{"a":"b"},"zzz":{"\xc3":1}',
        b'"metadata":{"name":"q","zzz":"\xff"}',
    ):
        body = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"q"},%b}' % field
        assert world.send("POST", MAPS, body).status == 400


def test_a_patch_in_each_form_that_is_no_utf_8_is_refused(world: World) -> None:
    world.send("POST", MAPS, encoded(config_map("a")))
    for form in ("json-patch", "merge-patch", "strategic-merge-patch", "apply-patch"):
        media = f"application/{form}+{'yaml' if form == 'apply-patch' else 'json'}"
        for body in BAD_UTF_8:
            headers = {"content-type": media}
            assert 400 <= world.send("PATCH", f"{MAPS}/a", body, headers=headers).status < 500


# On the wire.


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
@pytest.mark.parametrize(
    "target",
    [
        MAPS + "?labelSelector=%ff",
        MAPS + "?fieldSelector=metadata.name%3D%ff%fe",
        MAPS + "?continue=%ff&limit=1",
        MAPS + "?resourceVersion=%ff",
        MAPS + "?watch=%ff&timeoutSeconds=1",
        MAPS + "?dryRun=%ff&propagationPolicy=%ff&gracePeriodSeconds=%ff",
        MAPS + "/%ff",
        "/api/v1/namespaces/%ff/configmaps",
        "/api/v1/namespaces/%ff",
        "/apis/%ff/v1/x",
        "/%ff",
        MAPS + "?\xff=\xfe",
        MAPS + "/\xff",
    ],
)
def test_an_address_that_is_no_utf_8_is_the_clients_fault(tmp_path: Path, method: str, target: str) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        body = b"" if method in {"GET", "HEAD"} else b"\xff"
        lines = [f"{method} {target} HTTP/1.1", "Host: x", "Authorization: Bearer admin-token"]
        lines += ["X-Odd: \xff\xfe", "Connection: close", f"Content-Length: {len(body)}", "", ""]
        client.writer.write("\r\n".join(lines).encode("latin-1") + body)
        status = int((await client.rest()).split()[1])
        assert status < 500

    speak(dialogue, tmp_path)


@pytest.mark.parametrize(
    "upgrade",
    [
        ("Connection: Upgrade", "Upgrade: websocket"),
        ("Connection: keep-alive, upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        ("Connection: Upgrade", "Upgrade: SPDY/3.1"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_an_upgrade_is_ignored_and_what_follows_is_answered(
    tmp_path: Path, upgrade: tuple[str, ...], pieces: int
) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        body = encode_json(config_map("a"))
        token = "Authorization: Bearer admin-token"
        requests = [
            "\r\n".join((f"GET {MAPS} HTTP/1.1", "Host: x", token, *upgrade, "", "")).encode(),
            "\r\n".join(
                (f"POST {MAPS} HTTP/1.1", "Host: x", token, *upgrade, f"Content-Length: {len(body)}", "", "")
            ).encode() + body,
            "\r\n".join((f"GET {MAPS}/a HTTP/1.1", "Host: x", token, *upgrade, "", "")).encode(),
            f"GET {MAPS}/b HTTP/1.1\r\nHost: x\r\n{token}\r\n\r\n".encode(),
        ]  # fmt: skip
        sent = b"".join(requests)
        step = len(sent) // pieces + 1
        for at in range(0, len(sent), step):
            client.writer.write(sent[at : at + step])
            await client.writer.drain()
            await asyncio.sleep(0.01)
        found = [(await asyncio.wait_for(client.answer(), 10))[0].split()[1] for _ in requests]
        assert found == ["200", "201", "200", "404"]

    speak(dialogue, tmp_path)


def test_a_body_that_pretends_to_be_a_request_behind_an_upgrade_is_a_body(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        inner = f"DELETE {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n"
        client.create("kept")
        await client.answer()
        client.ask(f"GET {MAPS} HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", body=inner.encode())
        client.ask(f"GET {MAPS}/kept HTTP/1.1")
        assert (await asyncio.wait_for(client.answer(), 10))[0].split()[1] == "200"
        assert (await asyncio.wait_for(client.answer(), 10))[0].split()[1] == "200"

    speak(dialogue, tmp_path)


@pytest.mark.parametrize(
    "opening",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
        b"CONNECT /api/v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET x:y HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x:99999999/ HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_request_of_ours_ends_with_a_refusal(tmp_path: Path, opening: bytes) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.writer.write(opening)
        head = await asyncio.wait_for(client.reader.readuntil(b"\r\n"), 10)
        assert 400 <= int(head.split()[1]) < 500, head
        client.writer.close()

    speak(dialogue, tmp_path)


NOT_READ = {
    "no HTTP": (b"what?\r\n\r\n", "400"),
    "an address that is too long": (b"GET /" + b"x" * (URL_BYTES_MAX + 1) + b" HTTP/1.1\r\n\r\n", "414"),
    "too many headers": (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (HEADERS_MAX + 1) + b"\r\n", "431"),
    "a head that never ends": (b"GET / HTTP/1.1\r\na: " + b"b" * (HEAD_BYTES_MAX - 16), "431"),
    "two lengths": (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"),
    "a broken chunk": (
        b"POST /api HTTP/1.1\r\nAuthorization: Bearer admin-token\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "400",
    ),
}


@pytest.mark.parametrize(("unreadable", "status"), NOT_READ.values(), ids=NOT_READ.keys())
@pytest.mark.parametrize("at_once", [True, False])
def test_requests_before_an_unreadable_one_are_answered_first(
    tmp_path: Path, unreadable: bytes, status: str, at_once: bool
) -> None:
    """A client tells answers apart by their order: the refusal is not the answer to an earlier write."""

    async def dialogue(api: Api, http: Http, client: Client) -> None:
        body = encode_json(config_map("a"))
        head = (f"POST {MAPS} HTTP/1.1", "Host: x", "Authorization: Bearer admin-token")
        write = "\r\n".join((*head, f"Content-Length: {len(body)}", "", "")).encode() + body
        for piece in [write * 2 + unreadable] if at_once else [write, write, unreadable]:
            client.writer.write(piece)
            await client.writer.drain()
        answers = [await asyncio.wait_for(client.answer(), 10) for _ in range(3)]
        assert [answer[0].split()[1] for answer in answers] == ["201", "409", status]
        assert await asyncio.wait_for(client.reader.read(), 10) == b""

    speak(dialogue, tmp_path)


def test_what_follows_a_request_that_closes_does_not_take_its_answer(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.ask("GET /livez HTTP/1.1", "Connection: close")
        client.writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.rest()).split()[1] == b"200"

    speak(dialogue, tmp_path)


@pytest.mark.parametrize("coding", ["gzip, chunked", "deflate, chunked"])
def test_a_body_in_a_coding_that_is_not_read_is_refused(tmp_path: Path, coding: str) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        body = encode_json(config_map("a"))
        head = (f"POST {MAPS} HTTP/1.1", "Host: x", "Authorization: Bearer admin-token")
        client.writer.write("\r\n".join((*head, f"Transfer-Encoding: {coding}", "", "")).encode())
        client.writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert (await asyncio.wait_for(client.answer(), 10))[0].split()[1] == "501"

    speak(dialogue, tmp_path)
