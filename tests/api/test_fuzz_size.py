"""However large or nested a body is, it is answered soon, in few words, and without growth."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.bending import definition
from tests.api.fuzzing import (
    CRDS,
    JSON_PATCH,
    MAPS,
    MERGE_PATCH,
    NAMESPACE,
    STRATEGIC_PATCH,
    World,
    encoded,
)
from tests.api.harness import Api, config_map, tell

from fathom.store import sqlite

pytestmark = pytest.mark.slow

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
YAML = "application/yaml"

ANSWER_BYTES_MAX = 4_000_000
GROWTH_MB_MAX = 300

DEEP = 200_000
BIG = 3 * 1024 * 1024 - 4096
MANY = 200_000


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def named(field: bytes, value: bytes) -> bytes:
    return b'{"metadata":{"name":"a","%b":%b}}' % (field, value)


def pod(field: bytes, value: bytes) -> bytes:
    return b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a"}],"%b":%b}}' % (field, value)


def listed(item: bytes, count: int) -> bytes:
    return b"[" + (item + b",") * (count - 1) + item + b"]"


def mapped(value: bytes, count: int) -> bytes:
    return b"{" + b",".join(b'"-%d":%b' % (n, value) for n in range(count)) + b"}"


def doubling() -> bytes:
    """Twenty lines of YAML, each three times the one before."""
    lines = [b"a: &a x"]
    for at in range(ord("b"), ord("v")):
        lines.append(b"%c: &%c [*%c,*%c,*%c]" % (at, at, at - 1, at - 1, at - 1))
    return b"\n".join(lines)


BODIES = {
    "arrays in arrays": b"[" * DEEP,
    "objects in objects": b'{"a":' * DEEP,
    "closed arrays": b"[" * DEEP + b"]" * DEEP,
    "deep data": b'{"metadata":{"name":"a"},"data":' + b'{"a":' * DEEP + b"1" + b"}" * (DEEP + 1),
    "a long string": named(b"namespace", b'"' + b"x" * BIG + b'"'),
    "many escapes": named(b"namespace", b'"' + b"\\u0041" * (BIG // 6) + b'"'),
    "an endless string": b'{"a":"' + b'\\"' * (BIG // 2),
    "a long number": named(b"generation", b"9" * BIG),
    "many fields": b'{"metadata":{"name":"a"},"data":' + mapped(b'""', MANY) + b"}",
    "many labels": named(b"labels", mapped(b'"-"', MANY)),
    "many finalizers": named(b"finalizers", listed(b'""', 90_000)),
    "many nulls": named(b"finalizers", listed(b"null", 2 * MANY)),
    "many controllers": named(b"ownerReferences", listed(b'{"controller":true}', 90_000)),
    "many annotations": named(b"annotations", mapped(b'""', 90_000)),
    "YAML that grows": doubling(),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("sizes"))
    made.send("POST", MAPS, encoded({"metadata": {"name": "large"}}))
    yield made
    made.still_answers()
    made.close()


@pytest.mark.parametrize("media", ["application/json", YAML, MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_large_bodies_are_answered_soon_and_in_few_words(world: World, media: str, body: bytes) -> None:
    method, path = ("PATCH", f"{MAPS}/large") if media in {MERGE_PATCH, STRATEGIC_PATCH} else ("POST", MAPS)
    before = peak_mb()
    answer = world.send(method, path, body, headers={"content-type": media})
    assert answer.status < 400 or len(encoded(answer.obj)) < ANSWER_BYTES_MAX
    assert peak_mb() - before < GROWTH_MB_MAX


@pytest.mark.parametrize("count", [8_000, MANY])
@pytest.mark.parametrize("field", ["containers", "tolerations", "volumes", "imagePullSecrets"])
def test_pods_that_are_wrong_in_very_many_places_are_refused_in_few_words(
    world: World, field: str, count: int
) -> None:
    before = peak_mb()
    refused = world.send("POST", PODS, pod(field.encode(), listed(b'{"name":""}', count)))
    assert refused.status in {400, 422}
    assert len(encoded(refused.obj)) < ANSWER_BYTES_MAX
    assert peak_mb() - before < GROWTH_MB_MAX


def test_a_small_patch_cannot_make_a_huge_object(world: World) -> None:
    """Each copy doubles what is there: forty of them would be a terabyte."""
    world.send("POST", MAPS, encoded({"metadata": {"name": "bomb"}, "data": {"a": "x" * 1000}}))
    copies = [{"op": "copy", "from": "/data", "path": f"/data/{n}"} for n in range(40)]
    before = peak_mb()
    assert world.patch(f"{MAPS}/bomb", copies, JSON_PATCH).status in {400, 413, 422}
    assert peak_mb() - before < GROWTH_MB_MAX


def test_many_patches_cannot_make_a_huge_object(world: World) -> None:
    assert world.send("POST", CRDS, encoded(definition("piles"))).status == 201
    where = f"/apis/piles.example.com/v1/namespaces/{NAMESPACE}/fuzzlings"
    obj = {"kind": "Fuzzling", "apiVersion": "piles.example.com/v1", "metadata": {"name": "a"}}
    assert world.send("POST", where, encoded(obj)).status == 201
    patches = [{"spec": {str(n): "x" * 10**6}} for n in range(4)]
    assert [world.patch(f"{where}/a", patch).status for patch in patches] == [200, 200, 200, 413]


def test_what_the_store_does_not_take_is_refused_by_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(api: Api) -> None:
        monkeypatch.setattr(sqlite, "BODY_BYTES_MAX", 10_000)
        refused = await api.post(MAPS, config_map("a", x="x" * 10_000))
        assert (refused.status, refused.reason) == (413, "RequestEntityTooLarge")

    tell(story, tmp_path, store=sqlite.SqliteStore.open(tmp_path / "store"))


def test_many_watchers_that_never_read_cost_little(world: World) -> None:
    """Their places are kept, not their events."""

    async def story() -> None:
        watches = [await world.api.watch(f"{MAPS}?resourceVersion=0") for _ in range(200)]
        await world.api.post(MAPS, {"metadata": {"name": "fat"}, "data": {"a": "x" * 10_000}})
        for n in range(200):
            await world.api.patch(f"{MAPS}/fat", {"data": {"b": str(n)}})
        for watch in watches:
            watch.close()

    before = peak_mb()
    world.run(asyncio.wait_for(story(), 30))
    assert peak_mb() - before < 150
