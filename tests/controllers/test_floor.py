"""How far a new leader's view must have come."""

from __future__ import annotations

from typing import Any, cast

from tests.control.greetings import hosted, hosting
from tests.control.stage import Stage
from tests.control.worlds import told
from tests.controllers.test_plan_deployments import deployment

from fathom.cache.needs import AtLeast
from fathom.client.api import ListPage, Resource
from fathom.control.kit import Kit
from fathom.control.watches import DEPLOYMENT, POD, REPLICA_SET
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.sim.world.world import World


class Store:
    """A server whose revision grows with every question."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def list_page(self, resource: Resource, *, limit: int) -> ListPage:
        self.asked.append(f"{resource.plural} {limit}")
        return ListPage([], 40 + len(self.asked))


class Asking:
    def __init__(self, store: Store, floor: int | None = None) -> None:
        self.api: Any = store
        self.floor = floor


def test_a_term_that_knows_where_it_began_asks_nobody() -> None:
    store = Store()
    floor = LeaderMinRevision(cast(Kit, Asking(store, floor=7)), REPLICA_SET, POD)
    Stage().finish(floor.fetch())
    assert store.asked == []
    assert floor.needs == (AtLeast({"ReplicaSet": 7, "Pod": 7}),)


def test_the_server_is_asked_once_and_every_kind_must_have_come_so_far() -> None:
    store = Store()
    floor = LeaderMinRevision(cast(Kit, Asking(store)), REPLICA_SET, POD)
    assert not floor.needs
    stage = Stage()
    stage.finish(floor.fetch())
    stage.finish(floor.fetch())
    assert store.asked == ["replicasets 1"]
    assert floor.needs == (AtLeast({"ReplicaSet": 41, "Pod": 41}),)


def test_the_first_workload_of_a_term_is_not_held_although_its_kinds_are_quiet() -> None:
    async def story(world: World) -> None:
        world.process("kit", hosting(Deployments, ReplicaSets, lease="default/kit"))
        await world.sleep(5)
        await world.apply(DEPLOYMENT.resource, {"metadata": {"name": "web"}, "spec": deployment(3)["spec"]})
        await world.until(lambda: len(world.list("pods")) == 3, within_s=0.5, what="it has its pods")
        verdicts = [(one.controller, one.verdict) for one in hosted(world).journal.decisions]
        assert ("deployments", "create+status") in verdicts
        assert ("replicasets", "create+status") in verdicts
        assert not [one for one in verdicts if one[1] == "hold"]

    told(story)
