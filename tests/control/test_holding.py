"""Keys that are held because their view is not new enough: what ends it, and what is asked meanwhile."""

from __future__ import annotations

from itertools import pairwise

from tests.control.greetings import MAPS, Hosted, hosted, hosting
from tests.control.worlds import told

from fathom.cache.needs import AtLeast, Need
from fathom.control.kit import Kit
from fathom.control.plan import OWN_WRITES, Create, Delete, Plan, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, NODE, SECRET, Primary, Related
from fathom.model.objects import Key, Obj, metadata
from fathom.sim.world.faults import Refuse
from fathom.sim.world.world import World

MAP = Key("default", "m")
NEVER_S = 1000.0  # No bookmark comes within a story.


class Marks:
    """Puts a Secret beside each map, once all nodes are known as of the map's revision."""

    name = "marks"
    watches = (Primary(CONFIG_MAP, conditions=False), Related(NODE), Related(SECRET))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        found, mark = view.get("ConfigMap", key), Key("default", f"{self.name}-{key.name}")
        if found is None or not key.name.startswith("m") or view.get("Secret", mark) is not None:
            return ReconcileResult.never()
        made = Create("Secret", {"metadata": {"namespace": mark.namespace, "name": mark.name}})
        plan = Plan(creates=(made,), needs=(as_new_as(found),))
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


class MarksToo(Marks):
    name = "marks-too"


class Empties:
    """Deletes maps when there is a Secret, and looks again at once."""

    name = "empties"
    watches = (Primary(CONFIG_MAP, conditions=False), Related(SECRET, concerns=lambda one, view: (MAP,)))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        found = view.get("ConfigMap", key)
        if found is None or not view.list("Secret"):
            return ReconcileResult.never()
        plan = Plan(deletes=(Delete(target("ConfigMap", found)),), needs=(OWN_WRITES,))
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view), in_s=0.001)


def as_new_as(found: Obj) -> Need:
    return AtLeast({"Node": int(metadata(found)["resourceVersion"])})


def marked(world: World) -> int:
    return len(world.list("secrets", "default"))


def questions(kit: Hosted, plural: str) -> list[float]:
    """When it was asked how far a kind is."""
    return [at_s for at_s, ask in kit.asks if ask.target.startswith(f"/api/v1/{plural}?limit=")]


def test_of_a_kind_where_nothing_happens_the_server_is_asked_once_for_all_who_wait() -> None:
    async def story(world: World) -> None:
        world.process("kit", hosting(Marks, MarksToo, bookmark_s=NEVER_S))
        await world.sleep(5)
        for number in range(5):
            await world.apply(MAPS, {"metadata": {"name": f"m{number}"}})
        await world.until(lambda: marked(world) == 10, within_s=0.5, what="all are marked, twice")
        kit = hosted(world)
        assert len(questions(kit, "nodes")) == 1
        made = [one for one in kit.journal.decisions if one.verdict == "create"]
        assert {(one.cause.kind, one.cause.detail) for one in made} == {
            ("freshness", "the Node cache has caught up")
        }

    told(story)


def test_who_waits_for_an_own_write_waits_for_the_watch_to_tell_of_it() -> None:
    async def story(world: World) -> None:
        await world.apply(MAPS, {"metadata": {"name": "m"}})
        world.process("kit", hosting(Empties))
        await world.sleep(5)
        world.deafen("kit", "/configmaps", for_s=0.5)
        await world.apply(SECRET.resource, {"metadata": {"name": "go"}})
        await world.sleep(5)
        kit = hosted(world)
        assert world.get("configmaps", MAP) is None
        assert {one.reason for one in kit.passes if one.result == "held"} == {"OwnWritesUnseen"}
        assert questions(kit, "configmaps") == []

    told(story)


def test_a_server_that_does_not_say_how_far_it_is_is_not_asked_all_the_time() -> None:
    async def story(world: World) -> None:
        world.process("kit", hosting(Marks, MarksToo, bookmark_s=NEVER_S))
        await world.sleep(5)
        await world.apply(MAPS, {"metadata": {"name": "m"}})
        await world.sleep(10)
        assert marked(world) == 0
        asked = questions(hosted(world), "nodes")
        assert min(later - sooner for sooner, later in pairwise(asked)) >= 0.5
        await world.until(lambda: marked(world) == 2, within_s=30, what="it is marked in the end")

    told(story, faults=[Refuse(at_s=4, target="kit", match="/nodes", for_s=15, times=100)])
