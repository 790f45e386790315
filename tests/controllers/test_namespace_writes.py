"""A namespace that empties slowly is not written for every object that leaves it."""

from __future__ import annotations

from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.client.outcomes import Committed
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, uid_of
from fathom.model.resources import NAMESPACES
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.world import World

MAPS = Resource("", "v1", "configmaps")
MANY = 12


class Messages(Checker):
    name = "notes what is said to remain"
    resources = frozenset({"namespaces"})

    def __init__(self) -> None:
        self.seen: list[str] = []

    def commit(self, change: Seen) -> Found:
        said = find_condition(conditions_of(change.new or {}), "NamespaceContentRemaining")
        if change.key.name == "shop" and said is not None:
            self.seen.append(str(said["message"]))
        return None


def test_what_remains_is_not_counted_down_in_writes() -> None:
    messages = Messages()

    async def story(world: World) -> None:
        made = await world.apply(NAMESPACES, {"metadata": {"name": "shop"}})
        for number in range(MANY):
            held = {"name": f"m-{number}", "finalizers": ["example.com/slow"]}
            await world.apply(MAPS, {"metadata": held}, "shop")
        outcome = await world.api.delete(NAMESPACES, "", "shop", uid=uid_of(made))
        assert isinstance(outcome, Committed)
        for number in range(MANY):
            await world.sleep(2)
            patch = {"metadata": {"finalizers": None}}
            assert isinstance(await world.api.patch(MAPS, "shop", f"m-{number}", patch), Committed)
        await world.until(
            lambda: world.get("namespaces", Key("", "shop")) is None, within_s=60, what="it is gone"
        )

    told(story, checkers=[messages])
    counted = [one for one in dict.fromkeys(messages.seen) if "remaining" in one]
    assert 1 <= len(counted) <= 2, counted
