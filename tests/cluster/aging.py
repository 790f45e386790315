"""Objects of a stopped cluster, made older: nobody need wait the ten minutes after which they are overdue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.living import Cluster

from fathom.model.body import Body
from fathom.model.objects import Obj, metadata
from fathom.model.times import SECOND_NS, moment_ns, timestamp
from fathom.store.protocol import Committed, Expect, Put
from fathom.store.sqlite import SqliteStore


def make_older(cluster: Cluster, *keys: str, by_s: float) -> None:
    """Stops the cluster, moves the times of creation and deletion of RESOURCE/NAMESPACE/NAME into the past,
    and starts it again."""
    cluster.stop()
    asyncio.run(_rewrite(cluster.data, [f"/registry/{key}" for key in keys], by_s))
    cluster.start()


async def _rewrite(data: Path, keys: Iterable[str], by_s: float) -> None:
    store = SqliteStore.open(data)
    try:
        for key in keys:
            entry = await store.get(key)
            assert entry is not None, key
            older = Put(key, Body(_older(entry.body.obj, by_s)))
            assert isinstance(await store.commit([Expect(key, entry.revision)], [older]), Committed)
    finally:
        await store.close()


def _older(obj: Obj, by_s: float) -> Obj:
    meta = dict(metadata(obj))
    for field in ("creationTimestamp", "deletionTimestamp"):
        if field in meta:
            meta[field] = timestamp((moment_ns(meta[field]) or 0) - round(by_s * SECOND_NS))
    return {**obj, "metadata": meta}
