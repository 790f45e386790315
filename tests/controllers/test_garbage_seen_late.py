"""What the garbage collector does while its server is behind, or another one is faster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from fathom.control.queue import WorkQueue
from fathom.controllers.housekeeping.garbage_collector import Collector
from fathom.controllers.housekeeping.plan_garbage import Ref
from fathom.controllers.housekeeping.writer import HousekeepingWriter
from fathom.model.objects import Key, Obj
from fathom.model.view import Resources, Seen, View

GONE_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}
WAITING: Obj = {
    "metadata": {
        "name": "owner",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "9",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["foregroundDeletion"],
    }
}
CHILD: Obj = {
    "metadata": {
        "name": "child",
        "namespace": "default",
        "uid": "c",
        "resourceVersion": "5",
        "ownerReferences": [GONE_OWNER],
    }
}
OWNER_REF, CHILD_REF = (Ref("configmaps", "default", name) for name in ("owner", "child"))


class ConfigMaps:
    """The view of a server, and the kinds."""

    def __init__(self, **revisions: int) -> None:
        self.revisions = revisions

    def get(self, resource: str, key: Key) -> Seen | None:
        revision = self.revisions.get(key.name)
        return None if revision is None else Seen(WAITING if key.name == "owner" else CHILD, revision)

    def named(self, api_version: str, kind: str) -> str:
        return "configmaps"

    def is_namespaced(self, resource: str) -> bool:
        return True

    def path(self, resource: str, namespace: str, name: str = "") -> str:
        return name


class Writes:
    def __init__(self, *stored: Obj) -> None:
        self._stored = {obj["metadata"]["name"]: obj for obj in stored}
        self.bodies: list[Obj] = []

    async def read(self, path: str) -> Obj | None:
        return self._stored.get(path)

    async def write(self, method: str, path: str, *args: object, **options: Any) -> Obj:
        self.bodies.append(options["body"])
        return {}


def written(ref: Ref, view: ConfigMaps, *stored: Obj) -> Iterable[Obj]:
    writes = Writes(*stored)
    collector = Collector(
        writer=cast("HousekeepingWriter", writes),
        view=cast("View", view),
        resources=cast("Resources", view),
        queue=cast("WorkQueue[Ref]", _Queue()),
    )
    asyncio.run(collector.reconcile(ref))
    return writes.bodies


class _Queue:
    def add(self, ref: Ref, cause: object) -> None:
        pass

    def taken(self, ref: Ref) -> None:
        return None


def test_an_owner_that_waits_is_not_released_before_its_deletion_is_heard_of() -> None:
    assert written(OWNER_REF, ConfigMaps(owner=8), WAITING) == []
    assert written(OWNER_REF, ConfigMaps(owner=9), WAITING) != []


def test_a_dependent_of_a_waiting_owner_is_not_collected_before_that_is_heard_of() -> None:
    assert written(CHILD_REF, ConfigMaps(owner=8, child=5), WAITING, CHILD) == []
    assert written(CHILD_REF, ConfigMaps(owner=9, child=5), WAITING, CHILD) != []


def test_only_the_object_that_was_looked_at_is_collected() -> None:
    [options] = written(CHILD_REF, ConfigMaps(child=5), CHILD)
    assert options == {
        "propagationPolicy": "Background",
        "preconditions": {"uid": "c", "resourceVersion": "5"},
    }
