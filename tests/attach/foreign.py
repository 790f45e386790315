"""A Kubernetes that knows nothing of fathom: an API server without fathom.dev, and a copy of it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, Api, serving
from tests.attach.real import FOREIGN, RealApi, real_cluster
from tests.cli.asking import listening

from fathom.api.binding import facts
from fathom.api.http import Http
from fathom.ask.collect import Sources
from fathom.attach.kinds import MIRRORED, MirroredKind
from fathom.attach.mirror import Mirror
from fathom.client.http import ServerAddress
from fathom.record.audit_index import AuditIndex
from fathom.seams.log import NoLog
from fathom.seams.outside import live
from fathom.store.memory import MemoryStore

# What every Kubernetes has, also where nothing of ours is installed.
BUILT_IN = [kind for kind in MIRRORED if kind.resource.group != "fathom.dev"]
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"


class Foreign:
    def __init__(self, api: Any, url: str) -> None:
        self.api = api  # `Api` of the harness, or a RealApi.
        self.url = url

    def address(self, token: str = ADMIN) -> ServerAddress:
        if isinstance(self.api, RealApi):
            return ServerAddress(self.url, self.api.server.tls, lambda: ())
        head = (("authorization", f"Bearer {token}"),)
        return ServerAddress(self.url, ssl.create_default_context(), lambda: head)


@asynccontextmanager
async def foreign(data: Path) -> AsyncIterator[Foreign]:
    data.mkdir(exist_ok=True)
    if FOREIGN:
        with real_cluster() as server:
            yield Foreign(RealApi(server), server.url)
        return
    async with serving(data, own_kinds=False) as api:
        # Its bindings are not checked against overrides: to a Kubernetes they are objects like any other.
        patch = pytest.MonkeyPatch()
        patch.setattr(facts, "_by_target", lambda view: facts.Overrides((), {}))
        http = Http(api.parts.server, keep_alive_s=60)
        async with listening(http.connection) as url:
            try:
                yield Foreign(api, url)
            finally:
                await http.stop(patience_s=1)
                patch.undo()


@asynccontextmanager
async def copied(
    cluster: Foreign, data: Path, *, copied_before: bool = False, kinds: Sequence[MirroredKind] = BUILT_IN
) -> AsyncIterator[Api]:
    """A read-only server with a complete copy, which follows."""
    data.mkdir(exist_ok=True)
    store = MemoryStore()
    mirrors: list[Mirror] = []
    sources = Sources(
        audit=AuditIndex(data / "audit"),
        attached=cluster.url,
        copied=frozenset(kind.name for kind in kinds),
        behind=lambda: mirrors[0].failing.behind() if mirrors else "",
    )
    async with serving(data, store, sources=sources, read_only="a copy") as api:
        mirror = Mirror(
            cluster.address(),
            kinds,
            store,
            stored=lambda resource: api.core.cache.copied(resource)[2],
            copied_before=copied_before,
            audit=api.audit,
            outside=live(),
            log=NoLog(),
        )
        mirrors.append(mirror)
        following = asyncio.create_task(mirror.run())
        try:
            async with asyncio.timeout(20):
                await mirror.synced
            yield api
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def without_versions(obj: Any) -> Any:
    """The object without what differs between two clusters that are equal."""
    meta = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": meta}
