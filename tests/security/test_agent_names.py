"""What a pod names is looked for in its own namespace, whatever the name: the agent reads as its node, whose
rights reach the Secrets of all its pods."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.attach.foreign import foreign

from fathom.agent.host.api_reads import OBJECTS_MAX, Fetcher, NotFetched
from fathom.model.objects import Obj
from fathom.model.resource import Resource

MAPS = Resource("", "v1", "configmaps")
ELSEWHERE = [
    "../../other/secrets/key",
    "../secrets/key",
    "..%2Fsecrets%2Fkey",
    "..",
    ".",
    "a/../../secrets/key",
]


def pod_with(*volumes: Obj) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": list(volumes)}
    return {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec}


def volume(name: str) -> Obj:
    return {"name": "v", "configMap": {"name": name}}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_that_leads_elsewhere_is_not_found(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        async with foreign(tmp_path / "data") as cluster:
            secret = {"metadata": {"name": "key"}, "data": {"k": "c2VjcmV0"}}
            await cluster.api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
            for namespace in ("default", "other"):
                made = await cluster.api.post(f"/api/v1/namespaces/{namespace}/secrets", secret)
                assert made.status == 201
            fetcher = Fetcher(cluster.address())
            try:
                fetched = await fetcher.fetch(pod_with(volume(name)), {}, services=False)
            finally:
                await fetcher.close()
            assert fetched.config_maps[name] is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "last"), [("..", "%252E%252E"), (".", "%252E"), ("a/b", "a%2Fb"), ("a.b", "a.b")]
)
def test_no_part_of_a_path_leads_out_of_it(name: str, last: str) -> None:
    assert MAPS.path("default", name) == f"/api/v1/namespaces/default/configmaps/{last}"
    assert MAPS.path(name) == f"/api/v1/namespaces/{last}/configmaps"


def test_a_pod_that_names_very_many_objects_is_refused(tmp_path: Path) -> None:
    sources: list[Any] = [{"configMap": {"name": f"m{at}"}} for at in range(OBJECTS_MAX + 1)]
    tokens = {f"audience-{at}": 3600 for at in range(OBJECTS_MAX + 1)}

    async def story() -> None:
        async with foreign(tmp_path / "data") as cluster:
            fetcher = Fetcher(cluster.address())
            try:
                with pytest.raises(NotFetched, match="names more than"):
                    await fetcher.fetch(pod_with({"name": "v", "projected": {"sources": sources}}), {})
                with pytest.raises(NotFetched, match="names more than"):
                    await fetcher.fetch(pod_with(), tokens)
            finally:
                await fetcher.close()

    asyncio.run(story())
