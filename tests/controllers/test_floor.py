"""How far a new leader's view must have come."""

from __future__ import annotations

from typing import Any, cast

from tests.control.stage import Stage

from fathom.cache.freshness import AtLeast
from fathom.client.api import Page, Resource
from fathom.control.kit import Kit
from fathom.control.watches import POD, REPLICA_SET
from fathom.controllers.floor import Floor


class Store:
    """A server whose revision grows with every question."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def list_page(self, resource: Resource, *, limit: int) -> Page:
        self.asked.append(f"{resource.plural} {limit}")
        return Page([], 40 + len(self.asked))


class Asking:
    def __init__(self, store: Store, floor: int | None = None) -> None:
        self.api: Any = store
        self.floor = floor


def test_a_term_that_knows_where_it_began_asks_nobody() -> None:
    store = Store()
    floor = Floor(cast(Kit, Asking(store, floor=7)), REPLICA_SET, POD)
    Stage().finish(floor.fetch())
    assert store.asked == []
    assert floor.needs == (AtLeast({"ReplicaSet": 7, "Pod": 7}),)


def test_the_server_is_asked_once_and_every_kind_must_have_come_so_far() -> None:
    store = Store()
    floor = Floor(cast(Kit, Asking(store)), REPLICA_SET, POD)
    assert not floor.needs
    stage = Stage()
    stage.finish(floor.fetch())
    stage.finish(floor.fetch())
    assert store.asked == ["replicasets 1"]
    assert floor.needs == (AtLeast({"ReplicaSet": 41, "Pod": 41}),)
