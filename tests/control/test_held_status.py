"""What a status says while a plan waits for a fresh view: said once, not every time it is looked at."""

from __future__ import annotations

from tests.control.greetings import hosting
from tests.control.worlds import told

from fathom.cache.needs import NoOlderThan
from fathom.client.api import Resource
from fathom.control.kit import Kit
from fathom.control.plan import Create, Plan
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import DEPLOYMENT, NODE, SECRET, Primary, Related
from fathom.model.conditions import conditions_of, differ_in_numbers, find_condition
from fathom.model.objects import Key, Obj, metadata
from fathom.sim.checkers.status_rewrites import differs_in_numbers
from fathom.sim.scenarios.real import deployment
from fathom.sim.world.faults import AnyFault, HoldWatch, Refuse
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.world import World

DEPLOYMENTS = Resource("apps", "v1", "deployments")
HELD_S = 90.0


class Needy:
    """Wants to make a Secret for each Deployment, from a view of the nodes that is no older than 5 s."""

    name = "needy"
    watches = (Primary(DEPLOYMENT), Related(NODE), Related(SECRET))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view, made = self._kit.snapshot(), Key(key.namespace, f"for-{key.name}")
        if view.get("Deployment", key) is None or view.get("Secret", made) is not None:
            return ReconcileResult.in_s(1.0, "look again")
        create = Create("Secret", {"metadata": {"namespace": made.namespace, "name": made.name}})
        plan = Plan(creates=(create,), needs=(NoOlderThan(5.0, ("Node",)),))
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


class Writes(Checker):
    """Notes every write of the Deployment."""

    name = "notes writes"
    resources = frozenset({"deployments.apps"})

    def __init__(self) -> None:
        self.seen: list[tuple[float, Obj]] = []

    def commit(self, change: Seen) -> Found:
        if change.by == "kit" and change.new is not None:
            self.seen.append((change.at_s, change.new))
        return None


def test_a_plan_that_is_held_for_long_says_so_once() -> None:
    writes = Writes()

    async def story(world: World) -> None:
        world.process("kit", hosting(Needy))
        await world.sleep(15)  # The view of the nodes is old by now.
        await world.apply(DEPLOYMENTS, deployment("web", 1))
        await world.sleep(HELD_S)
        assert world.get("secrets", Key("default", "for-web")) is None
        said = [find_condition(conditions_of(obj), "Reconciling") for _, obj in writes.seen]
        assert [(one or {}).get("reason") for one in said] == ["Stale"], said
        assert "Node" in str((said[0] or {})["message"])

    faults: list[AnyFault] = [
        HoldWatch(at_s=2, target="kit", match="/nodes", for_s=200),
        Refuse(at_s=2, target="kit", match="/nodes", for_s=200, times=10_000),
    ]
    told(story, faults=faults, checkers=[writes])


def test_when_a_held_plan_goes_on_its_status_says_that_too() -> None:
    writes = Writes()

    async def story(world: World) -> None:
        world.process("kit", hosting(Needy))
        await world.sleep(15)
        await world.apply(DEPLOYMENTS, deployment("web", 1))
        await world.sleep(HELD_S)
        world.heal()
        made = Key("default", "for-web")
        await world.until(lambda: world.get("secrets", made) is not None, within_s=90, what="it goes on")
        await world.sleep(5)
        said = [find_condition(conditions_of(obj), "Reconciling") or {} for _, obj in writes.seen]
        assert [one.get("status") for one in said] == ["True", "False"]
        assert metadata(writes.seen[-1][1])["generation"] == 1

    faults: list[AnyFault] = [
        HoldWatch(at_s=2, target="kit", match="/nodes", for_s=200),
        Refuse(at_s=2, target="kit", match="/nodes", for_s=200, times=10_000),
    ]
    told(story, faults=faults, checkers=[writes])


def test_what_differs_in_numbers_alone_is_told_from_what_differs() -> None:
    old: Obj = {"status": {"conditions": [{"type": "A", "status": "True", "message": "for 3 s"}], "n": 1}}
    said: list[Obj] = old["status"]["conditions"]
    counted: Obj = {"status": {"conditions": [{**said[0], "message": "for 5 s"}], "n": 1}}
    assert differs_in_numbers(old, counted)
    assert differ_in_numbers(said, counted["status"]["conditions"])
    others: list[Obj] = [
        old,
        {"status": {**counted["status"], "n": 2}},
        {"status": {"conditions": [{**said[0], "status": "False", "message": "for 5 s"}], "n": 1}},
        {"status": {"conditions": [{**said[0], "message": "for 5 minutes"}], "n": 1}},
    ]
    for other in others:
        assert not differs_in_numbers(old, other)
        conditions = other["status"]["conditions"]
        assert other["status"]["n"] == 2 or not differ_in_numbers(said, conditions)
