"""The whole observer in one process: a server on a socket, on SQLite, whose store is a copy."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.attach.foreign import BUILT_IN, NODES, PODS, Foreign, foreign
from tests.cli.asking import node, pod

from fathom import serve
from fathom.api.admission.addresses import ADDRESSES
from fathom.attach.copying import ForeignCluster
from fathom.cli.cluster.serve import server_at
from fathom.client.api import Api, Resource
from fathom.client.once import api_of
from fathom.client.outcomes import Rejected
from fathom.model.objects import Obj
from fathom.private_files import NotOurs

POD = Resource("", "v1", "pods")
NODE = Resource("", "v1", "nodes", namespaced=False)
TIMELINES = Resource("fathom.dev", "v1alpha1", "timelines")


@asynccontextmanager
async def observing(cluster: Foreign, data: Path, *, copied_before: bool = False) -> AsyncIterator[Api]:
    copying = ForeignCluster(cluster.address, cluster.url, BUILT_IN, copied_before=copied_before)
    (data / "kubeconfig").unlink(missing_ok=True)
    serving = asyncio.create_task(
        serve._run(
            data, host="127.0.0.1", port=0, store=f"sqlite:{data}", plugins=[], service_addresses=ADDRESSES,
            page_hosts=(), warnings=[], copying=copying, own_kinds=True, drain_s=None,
        )
    )  # fmt: skip
    try:
        async with asyncio.timeout(30):
            while not (data / "kubeconfig").exists():
                assert not serving.done(), serving.exception()
                await asyncio.sleep(0.02)
        async with api_of(server_at(data / "kubeconfig")) as api:
            yield api
        signal.raise_signal(signal.SIGTERM)  # As users stop it: its handler is set as long as it serves.
        await asyncio.wait_for(serving, 30)
    finally:
        serving.cancel()


async def texts(api: Api, name: str) -> list[str]:
    """What the timeline of a node says."""
    answer: Obj = await api.get(TIMELINES, "fathom-system", f"node.{name}") or {}
    return [f"{entry.get('actor')} {entry['text']}" for entry in answer["status"]["entries"]]


def test_an_observer_serves_a_copy_and_catches_up_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "copy"
    data.mkdir(mode=0o700)

    async def main() -> None:
        async with foreign(tmp_path / "foreign") as cluster:
            await cluster.api.post(NODES, node("node-1", "4"))
            await cluster.api.post(PODS, pod("web", "1"))
            async with observing(cluster, data) as api:
                assert await api.get(POD, "default", "web") is not None
                refused = await api.create(POD, "default", pod("mine", "1"))
                assert isinstance(refused, Rejected)
                assert (refused.code, refused.message) == (405, serve.READ_ONLY.format(cluster.url))
                assert not [text for text in await texts(api, "node-1") if "unschedulable" in text]
            await cluster.api.patch(f"{NODES}/node-1", {"spec": {"unschedulable": True}})
            await cluster.api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
            async with observing(cluster, data, copied_before=True) as api:
                assert await api.get(POD, "default", "web") is None
                copied = await api.get(NODE, "", "node-1") or {}
                assert copied["spec"]["unschedulable"] is True
                async with asyncio.timeout(30):  # The audit log is written a moment later.
                    while not [text for text in await texts(api, "node-1") if "unschedulable" in text]:
                        await asyncio.sleep(0.05)

    asyncio.run(main())


def test_a_copy_is_never_served_as_a_cluster(tmp_path: Path) -> None:
    """Its controllers would act on what is only a copy."""
    (tmp_path / serve.COPY_OF).write_text("https://prod:6443\n")
    with pytest.raises(NotOurs, match="is a copy of https://prod:6443 that `fathom attach` made"):
        serve.run_api(data=tmp_path, host="127.0.0.1", port=0, store=None)
