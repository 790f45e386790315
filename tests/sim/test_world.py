"""What a story can say and do, and how invariants are looked at."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from itertools import count

import msgspec
import pytest
from tests.sim.small import CONFIG_MAPS, config_map, passes, running, story, told

from fathom.client.api import Api, Resource
from fathom.model.objects import Key, Obj
from fathom.seams.process import Inside
from fathom.sim.world import engine
from fathom.sim.world.faults import Happening, Pause
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.world import World

NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)


class Watching(Checker):
    name = "watching"

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def commit(self, change: Seen) -> Found:
        self.seen.append(change)
        return None


def test_a_checker_sees_each_commit_with_who_did_it_and_what_was_there() -> None:
    watching = Watching()

    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("c", a="1"))
        await world.sleep(2)
        await world.apply(CONFIG_MAPS, config_map("c", a="2"))
        await world.delete(CONFIG_MAPS, "c")
        await world.apply(NAMESPACES, {"metadata": {"name": "n"}})
        await world.sleep(2)

    passes(story(tale, checkers=lambda: (watching,)))
    seen = [one for one in watching.seen if one.resource == "configmaps"]
    assert [(one.by, one.path, _a(one.old), _a(one.new), round(one.at_s)) for one in seen] == [
        ("driver", "configmaps/default/c", None, "1", 0),
        ("driver", "configmaps/default/c", "1", "2", 2),
        ("driver", "configmaps/default/c", "2", None, 2),
    ]
    accounts = [(one.by, one.path) for one in watching.seen if one.resource == "serviceaccounts"]
    assert accounts == [("api-1", "serviceaccounts/n/default")]  # By its housekeeping.


def _a(obj: Obj | None) -> str | None:
    return None if obj is None else str(obj["data"]["a"])


class NoSecondMap(Checker):
    name = "no second map"

    def commit(self, change: Seen) -> Found:
        if change.key.name == "second":
            return Finding("there is a second", ("configmaps/default/first", change.path))
        return None


def test_a_finding_ends_the_run_and_is_not_taken_for_the_stores_answer() -> None:
    after: list[str] = []

    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("first"))
        await world.apply(CONFIG_MAPS, config_map("second"))
        after.append("the story went on")

    violation = told(story(tale, checkers=lambda: (NoSecondMap(),))).violation
    assert violation is not None
    assert (violation.invariant, violation.message, violation.objects, after) == (
        "no second map",
        "there is a second",
        ("configmaps/default/first", "configmaps/default/second"),
        [],
    )


class Faulty(Checker):
    """Raises in one of its methods."""

    name = "faulty"

    def __init__(self, where: str) -> None:
        self._where = where

    def _raise(self, where: str) -> None:
        if where == self._where:
            raise ZeroDivisionError("the checker's own bug")

    def begin(self, world: World) -> None:
        self._raise("begin")

    def commit(self, change: Seen) -> Found:
        self._raise("commit")
        return None

    def settled(self, world: World) -> Iterable[str | Finding]:
        self._raise("settled")
        return ()

    def ended(self, world: World) -> Iterable[str | Finding]:
        self._raise("ended")
        return ()


@pytest.mark.parametrize("where", ["begin", "commit", "settled", "ended"])
def test_a_checker_that_raises_is_a_violation_of_its_run(where: str) -> None:
    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("c"))
        await world.heal_and_settle(quiet_s=1)

    violation = told(story(tale, checkers=lambda: (Faulty(where),))).violation
    assert violation is not None
    assert violation.invariant == "no checker raises an exception"
    assert re.fullmatch(
        r"faulty: test_world\.py:\d+: ZeroDivisionError: the checker's own bug", violation.message
    )


def test_checkers_that_cannot_be_made_are_a_violation_of_their_run() -> None:
    async def tale(world: World) -> None:
        await world.sleep(1)

    def checkers() -> Sequence[Checker]:
        raise ZeroDivisionError("no checkers today")

    violation = told(story(tale, checkers=checkers)).violation
    assert violation is not None
    assert violation.invariant == "no checker raises an exception"
    assert violation.message.startswith("a checker: test_world.py:")


class Empty(Checker):
    name = "nothing is left"
    patience_s = 0.0

    def settled(self, world: World) -> Iterable[str | Finding]:
        for obj in world.list("configmaps"):
            yield f"{obj['metadata']['name']} is left"


def test_what_must_be_true_at_rest_is_looked_at_at_rest() -> None:
    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("c"))
        await world.settle(quiet_s=5)

    violation = told(story(tale, checkers=lambda: (Empty(),))).violation
    assert violation is not None
    assert (violation.invariant, violation.message, round(violation.at_s)) == (
        "nothing is left",
        "c is left",
        5,
    )


def test_a_world_is_at_rest_so_long_after_the_last_thing_that_was_written() -> None:
    ends_s: list[float] = []

    async def write(world: World) -> None:
        for number in range(4):
            await world.apply(CONFIG_MAPS, config_map(f"c{number}"))
            ends_s[:] = [world._moved_ns / 1e9 + 5]
            await world.sleep(3)

    async def tale(world: World) -> None:
        writing = asyncio.create_task(write(world))
        await world.settle(quiet_s=5)
        ends_s.append(world.engine.now_ns / 1e9)
        await writing

    passes(story(tale))
    assert ends_s[0] == ends_s[1] > 14


def test_a_world_that_is_never_at_rest_is_broken_in_time() -> None:
    async def write_for_ever(world: World) -> None:
        for number in count():
            await world.apply(CONFIG_MAPS, config_map(f"c{number}"))
            await world.sleep(3)

    async def tale(world: World) -> None:
        writing = asyncio.create_task(write_for_ever(world))
        await world.settle(quiet_s=5, within_s=20)
        writing.cancel()

    violation = told(story(tale)).violation
    assert violation is not None
    assert (violation.message, violation.at_s) == ("the world comes to rest: not within 20 s", 20.0)


def test_a_checker_may_be_patient() -> None:
    class Patient(Empty):
        patience_s = 20.0

    async def remove_later(world: World) -> None:
        await world.sleep(12)
        await world.delete(CONFIG_MAPS, "c")

    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("c"))
        removing = asyncio.create_task(remove_later(world))
        await world.settle(quiet_s=5)
        assert world.now_s > 12
        await removing

    passes(story(tale, checkers=lambda: (Patient(),)))


def test_what_does_not_come_to_be_in_time_is_broken() -> None:
    async def tale(world: World) -> None:
        await world.until(lambda: False, within_s=7, what="pigs fly")

    violation = told(story(tale)).violation
    assert violation is not None
    assert (violation.invariant, violation.message) == ("liveness", "pigs fly: not within 7 s")


async def a_worker_does_its_work(world: World) -> None:
    async def main(inside: Inside) -> None:
        await asyncio.sleep(1)
        await Api(inside.seam).create(CONFIG_MAPS, "default", config_map("made"))

    world.process("worker", running(main))
    await world.until(lambda: bool(world.list("configmaps")), within_s=7, what="it is made")


@pytest.mark.parametrize("own", [False, True])
def test_what_a_fault_makes_late_has_its_time_once_faults_have_ended(own: bool) -> None:
    """Unless the fault is the scenario's own: then it has reckoned with it."""
    faults = (Pause(at_s=0.5, target="worker", for_s=1000.0),)
    scenario = story(a_worker_does_its_work)
    if own:
        scenario = msgspec.structs.replace(scenario, scripted=faults)
    assert (told(scenario, faults).violation is not None) == own


def test_what_no_fault_makes_late_is_broken_although_there_are_faults() -> None:
    async def tale(world: World) -> None:
        await world.until(lambda: False, within_s=7, what="pigs fly")

    violation = told(story(tale), (Pause(at_s=0.5, target="worker", for_s=1000.0),)).violation
    assert violation is not None
    assert violation.message == "pigs fly: not within 7 s"


def test_a_story_that_never_ends_is_broken() -> None:
    async def tale(world: World) -> None:
        await world.sleep(10_000)

    violation = told(story(tale)).violation
    assert violation is not None
    assert violation.message == "the scenario did not end within 1800 s"


def test_a_run_that_gets_nowhere_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "INPUTS_MAX", 500)

    async def tale(world: World) -> None:
        while True:
            await world.api.get(CONFIG_MAPS, "default", "none")

    violation = told(story(tale)).violation
    assert violation is not None
    assert violation.invariant == "the scenario ends"


def test_happenings_come_when_a_fault_says_so() -> None:
    moments: list[float] = []

    async def tale(world: World) -> None:
        world.happening("a node dies", lambda: moments.append(world.now_s))
        await world.sleep(5)

    passes(story(tale), [Happening(at_s=3, name="a node dies")])
    assert moments == [3]


def test_apply_creates_and_then_changes() -> None:
    async def tale(world: World) -> None:
        made = await world.apply(CONFIG_MAPS, config_map("c", a="1"))
        changed = await world.apply(
            CONFIG_MAPS, {**config_map("c", a="2"), "metadata": {"name": "c", "labels": {"l": "x"}}}
        )
        assert made["metadata"]["uid"] == changed["metadata"]["uid"]
        stored = world.get("configmaps", Key("default", "c"))
        assert stored is not None
        assert (stored["data"], stored["metadata"]["labels"]) == ({"a": "2"}, {"l": "x"})

    passes(story(tale))


def test_a_workload_is_drawn_from_the_seed() -> None:
    draws: list[float] = []

    async def tale(world: World) -> None:
        draws.append(world.rng.random())

    for seed in ("1", "1", "2"):
        passes(story(tale), seed=seed)
    assert draws[0] == draws[1] != draws[2]


def test_two_servers_on_one_store_agree() -> None:
    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("c"))
        await world.sleep(1)
        caches = [server.state.parts.core.cache for server in world.servers]
        seen = [cache.get("configmaps", Key("default", "c")) for cache in caches]
        assert seen[0] is not None
        assert seen[1] is not None
        assert (seen[0].obj, seen[0].revision) == (seen[1].obj, seen[1].revision)
        assert caches[0].reached == caches[1].reached == world.engine.store.newest

    passes(story(tale, servers=2))
