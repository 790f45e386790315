"""A namespace that takes long to empty: its conditions have the time at which they were decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from fathom.controllers.housekeeping.namespaces import NamespaceController
from fathom.controllers.housekeeping.writer import HousekeepingWriter
from fathom.model.cause import UNSTATED
from fathom.model.objects import Key, Obj
from fathom.model.times import SECOND_NS, timestamp
from fathom.model.view import Resources, Seen, View

SLOW_S = 14
SHOP: Obj = {
    "metadata": {"name": "shop", "uid": "u", "resourceVersion": "5", "deletionTimestamp": timestamp(0)},
    "spec": {"finalizers": ["kubernetes"]},
}
HELD: Obj = {"metadata": {"name": "m", "namespace": "shop", "uid": "m", "finalizers": ["example.com/slow"]}}


class Clock:
    now_s = 100

    def now_ns(self) -> int:
        return self.now_s * SECOND_NS

    monotonic_ns = now_ns


class OneNamespace:
    """The view, and the kinds: one namespace, with one object."""

    def get(self, resource: str, key: Key) -> Seen | None:
        return Seen(SHOP, 5) if resource == "namespaces" else None

    def all_namespaced(self) -> list[str]:
        return ["configmaps"]

    def path(self, resource: str, namespace: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{namespace}/{resource}/{name}"

    def list(self, resource: str, namespace: str | None = None) -> Iterable[Seen]:
        return [Seen(HELD, 3)]


class SlowWrites:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reported: list[Obj] = []

    async def read(self, path: str) -> Obj | None:
        return SHOP

    async def write(self, method: str, path: str, *args: object, **options: Any) -> Obj:
        self._clock.now_s += SLOW_S
        if method == "PATCH":
            self.reported += options["body"]["status"]["conditions"]
        return {}


def test_the_time_of_a_condition_is_after_the_deletions_before_it() -> None:
    clock, world = Clock(), OneNamespace()
    writes = SlowWrites(clock)
    controller = NamespaceController(
        writer=cast("HousekeepingWriter", writes),
        view=cast("View", world),
        resources=cast("Resources", world),
        clock=clock,
    )
    assert asyncio.run(controller.reconcile("shop", cause=UNSTATED))
    assert {each["lastTransitionTime"] for each in writes.reported} == {timestamp((100 + SLOW_S) * SECOND_NS)}
