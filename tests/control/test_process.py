"""A process of controllers in a world where nothing goes wrong: it converges, says so, and stops in order."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.control.greetings import (
    GREETINGS,
    cards,
    define,
    greet,
    hosted,
    hosting,
    is_ready,
    look,
    said,
)
from tests.control.worlds import told

from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, Primary
from fathom.model.objects import Key, lookup, metadata
from fathom.model.resources import LEASES
from fathom.sim.world.invariants import Checker, Seen
from fathom.sim.world.world import World


async def ready(world: World, *names: str, within_s: float = 20) -> None:
    await world.until(
        lambda: all(is_ready(world, name) for name in names), within_s=within_s, what=f"{names} are ready"
    )


def test_what_is_wanted_comes_to_be_and_is_said_with_its_generation() -> None:
    async def story(world: World) -> None:
        await define(world)
        await greet(world, "hi", copies=3)
        world.process("kit", hosting())
        await ready(world, "hi")
        assert cards(world) == {"hi-0": "hello", "hi-1": "hello", "hi-2": "hello"}
        await greet(world, "hi", copies=1, message="bye")
        await ready(world, "hi")
        assert cards(world) == {"hi-0": "bye"}
        assert said(world, "hi", "Ready") == ("True", "AllWritten", 2)
        await world.delete(GREETINGS, "hi")
        await world.until(lambda: cards(world) == {}, within_s=10, what="the copies go with it")

    told(story)


def test_every_decision_says_what_woke_it_what_it_saw_and_what_came_of_it() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(lease="default/kit"))
        await world.sleep(3)
        await greet(world, "hi", copies=2)
        await ready(world, "hi")
        journal = hosted(world).journal
        first = journal.decisions[0]
        meta = metadata(look(world, "hi"))
        assert (first.subject.resource, first.subject.name, first.subject.uid, first.subject.generation) == (
            "greetings.example.dev",
            "hi",
            meta["uid"],
            1,
        )
        assert (first.controller, first.verdict, first.cause.kind, first.attempt, first.epoch) == (
            "greetings",
            "create+status",
            "event",
            1,
            1,
        )
        assert first.cause.text.startswith("greetings.example.dev default/hi added at ")
        assert first.actions == (
            "create ConfigMap default/hi-0",
            "create ConfigMap default/hi-1",
            "status Greeting default/hi",
        )
        assert set(first.seen) == {"Greeting", "ConfigMap"}
        results = [one.result for one in journal.outcomes if one.id == first.id]
        assert results == ["committed", "committed", "committed"]

    told(story)


class Headers(Checker):
    """Notes what came with each commit of a copy."""

    def __init__(self) -> None:
        self.decisions: list[str] = []

    def commit(self, change: Seen) -> None:
        if change.resource == "configmaps" and change.by == "kit":
            self.decisions.append(dict(change.headers)["fathom-decision"])


def test_every_write_names_the_decision_it_carries_out() -> None:
    headers = Headers()

    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await greet(world, "hi", copies=3)
        await ready(world, "hi")
        assert headers.decisions == [hosted(world).journal.decisions[0].id] * 3

    told(story, checkers=[headers])


def test_nothing_is_written_when_nothing_is_to_be_done() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(resync_s=5))
        await greet(world, "hi", copies=2)
        await ready(world, "hi")
        await world.sleep(5)
        before = metadata(look(world, "hi"))["resourceVersion"]
        asks = len([ask for _, ask in hosted(world).asks if ask.method != "GET"])
        await world.sleep(60)
        assert metadata(look(world, "hi"))["resourceVersion"] == before
        assert len([ask for _, ask in hosted(world).asks if ask.method != "GET"]) == asks
        resynced = [one for one in hosted(world).passes if one.result == "ok"]
        assert len(resynced) > 10

    told(story)


class Slow:
    """Takes three seconds for a pass that ends with a write."""

    name = "slow"
    watches = (Primary(CONFIG_MAP, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        source = self._kit.snapshot().get("ConfigMap", key)
        if source is None or not key.name.startswith("source") or "seen" in (source.get("data") or {}):
            return ReconcileResult.never()
        await asyncio.sleep(3)
        await self._kit.api.patch(CONFIG_MAP.resource, *key, {"data": {"seen": "yes"}})
        return ReconcileResult.never()


class Order(Checker):
    """What was committed in which order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def commit(self, change: Seen) -> None:
        if change.resource == "configmaps" and lookup(change.new or {}, "data", "seen"):
            self.events.append("written")
        if change.resource == LEASES.name and change.new is not None:
            holder = str(lookup(change.new, "spec", "holderIdentity") or "nobody").partition("_")[0]
            if self.events[-1:] != [f"held by {holder}"]:
                self.events.append(f"held by {holder}")


async def source(world: World, name: str) -> None:
    await world.apply(CONFIG_MAP.resource, {"metadata": {"name": name}})


def test_told_to_stop_it_finishes_what_it_has_begun_and_only_then_releases_the_lease() -> None:
    order = Order()

    async def story(world: World) -> None:
        world.process("kit", hosting(Slow, lease="default/kit", workers=2))
        await world.sleep(2)
        for number in range(5):
            await source(world, f"source-{number}")
        await world.sleep(0.5)
        world.stop("kit", grace_s=20)
        await world.sleep(5)
        assert hosted(world).task.done()
        # Two were under way; the other three were not begun any more.
        assert order.events == ["held by fathom", "written", "written", "held by nobody"]

    told(story, checkers=[order])


def test_told_to_begin_anew_it_keeps_the_lease_for_its_successor() -> None:
    order = Order()

    async def story(world: World) -> None:
        world.process("kit", hosting(Slow, lease="default/kit"))
        await world.sleep(2)
        identity = hosted(world).running.lease_status
        await source(world, "source-1")
        await world.sleep(0.5)
        world.engine.stop(world.engine.processes["kit"], 5, word="rebase")
        await world.sleep(10)
        after = hosted(world).running.lease_status
        assert identity is not None
        assert after is not None
        assert (after.state, after.epoch) == ("leading", 2)
        assert after.identity != identity.identity
        assert order.events == ["held by fathom", "written", "held by fathom"]

    told(story, checkers=[order])


def test_what_does_not_finish_in_time_is_cut_off_and_the_lease_is_left_to_expire() -> None:
    order = Order()

    async def story(world: World) -> None:
        world.process("kit", hosting(Slow, lease="default/kit", drain_s=1.0))
        await world.sleep(2)
        await source(world, "source-1")
        await world.sleep(0.5)
        world.stop("kit", grace_s=30)
        await world.sleep(5)
        assert hosted(world).task.done()
        assert order.events == ["held by fathom"]

    told(story, checkers=[order])


def test_who_stands_by_follows_with_warm_caches_when_the_leader_is_gone() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("one", hosting(lease="default/kit", who="one"))
        await world.sleep(2)
        world.process("two", hosting(lease="default/kit", who="two"))
        await greet(world, "hi", copies=2)
        await ready(world, "hi")
        assert hosted(world, "two").journal.decisions == []
        world.kill("one")
        await greet(world, "hi", copies=4)
        await ready(world, "hi", within_s=30)
        assert len(cards(world)) == 4
        assert hosted(world, "two").journal.decisions[0].epoch == 2

    told(story)


def test_the_view_shows_where_everything_stands() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(lease="default/kit"))
        await greet(world, "hi")
        await ready(world, "hi")
        view = hosted(world).running.view
        assert view.lease_status is not None
        assert (view.lease_status.state, view.breaker.state) == ("leading", "closed")
        shown: list[Any] = [view.waiting, view.in_hand, view.troubles]
        assert shown == [{"greetings": 0}, {"greetings": 0}, {"greetings": {}}]

    told(story)


def test_told_to_stop_during_an_outage_it_does_not_wait_for_the_end_of_it() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(drain_s=60.0))
        for number in range(8):
            await greet(world, f"g{number}")
        await world.sleep(3)
        world.crash("api-1", restart_after_s=200)
        await world.sleep(20)
        assert hosted(world).running.breaker.view.state != "closed"
        world.stop("kit", grace_s=100)
        await world.sleep(1)
        assert hosted(world).task.done()

    told(story)


class Spoiled:
    """Answers with what is no answer."""

    name = "spoiled"
    watches = (Primary(CONFIG_MAP, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self.looked = 0

    async def reconcile(self, key: Key) -> ReconcileResult:
        self.looked += 1
        return None if key.name.startswith("bad") else ReconcileResult.never()  # type: ignore[return-value]  # on purpose


def test_an_answer_that_is_none_costs_its_key_a_retry_and_no_worker() -> None:
    async def story(world: World) -> None:
        for number in range(10):
            await source(world, f"bad-{number}")
        world.process("kit", hosting(Spoiled, workers=2))
        await world.sleep(5)
        await source(world, "good")
        await world.sleep(2)
        results = {one.key.name: one.result for one in hosted(world).passes}
        assert results["good"] == "ok"
        assert results["bad-3"] == "failed"
        assert hosted(world).running.view.troubles["spoiled"]["default/bad-3"].reason == "InternalError"

    told(story)
