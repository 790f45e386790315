"""Checkers of what is there when nothing changes any more. They judge plain objects, so that what holds in a
simulated world is judged by the same code in a live cluster (`fathom.chaos`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fathom.api.resource_cache import REGISTRY
from fathom.model.objects import Obj
from fathom.sim.checkers.capacity import LEDGERS
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.store_link import at_once
from fathom.store.protocol import Entry

if TYPE_CHECKING:
    from fathom.sim.world.world import World

# The server's own records are not API objects: they have neither UID nor owners.
RECORDS = frozenset({"fences.fathom.dev", "ledgers.fathom.dev", *LEDGERS})

Objects = Mapping[str, Obj]  # By path: 'pods/default/web-1'.


class AtRest(Checker):
    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        """What is wrong with the objects that are there now."""
        return ()

    def settled(self, world: World) -> Iterable[str | Finding]:
        entries = at_once(world.engine.store.range(REGISTRY)).entries
        return self.at_rest(objects_of(entries), world.now_s)


def of_resource(objects: Objects, resource: str) -> list[Obj]:
    """The objects of one resource: 'pods', 'deployments.apps'."""
    return [obj for path, obj in objects.items() if path.startswith(f"{resource}/")]


def objects_of(entries: Iterable[Entry]) -> Objects:
    """The API's objects among the entries of a store."""
    paths = ((entry.key.removeprefix(REGISTRY), entry) for entry in entries)
    return {path: entry.body.obj for path, entry in paths if path.partition("/")[0] not in RECORDS}
