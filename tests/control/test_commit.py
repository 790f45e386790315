"""Carrying out a plan: knowing what came of it, and seeing one's own writes before deciding again."""

from __future__ import annotations

from tests.control.greetings import MAPS, cards, define, greet, hosted, hosting, is_ready, look, said
from tests.control.worlds import told

from fathom.cache.needs import NoOlderThan
from fathom.client.api import Resource
from fathom.control.kit import Kit
from fathom.control.plan import Delete, Plan, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, Primary
from fathom.model.objects import Key, metadata
from fathom.sim.world.faults import HoldWatch, LoseReply, Partition, Refuse, SlowReply
from fathom.sim.world.world import World

QUOTAS = Resource("", "v1", "resourcequotas")
POSTS = "POST /api/v1/namespaces/default/configmaps"


async def ready(world: World, name: str, within_s: float = 60) -> None:
    await world.until(lambda: is_ready(world, name), within_s=within_s, what=f"{name} is ready")


def test_many_creates_begin_with_one_and_stop_at_the_first_refusal() -> None:
    async def story(world: World) -> None:
        await define(world)
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "2"}}}
        await world.apply(QUOTAS, quota)
        world.process("kit", hosting())
        await greet(world, "hi", copies=40)
        await world.until(lambda: bool(hosted(world).passes), within_s=10, what="a pass is over")
        first = ("fathom-decision", hosted(world).journal.decisions[0].id)
        posts = [ask for _, ask in hosted(world).asks if ask.method == "POST" and first in ask.headers]
        assert len(posts) == 3  # One, then two, of which one did not fit.

    told(story)


def test_a_retry_names_the_decision_that_failed_and_the_outcome_the_check_that_refused_it() -> None:
    async def story(world: World) -> None:
        await define(world)
        await world.apply(QUOTAS, {"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}})
        world.process("kit", hosting())
        await greet(world, "hi", copies=1)
        journal = hosted(world).journal
        await world.until(
            lambda: any(decision.cause.kind == "retry" for decision in journal.decisions),
            within_s=30,
            what="it tries again",
        )
        retry = next(decision for decision in journal.decisions if decision.cause.kind == "retry")
        failed = next(decision for decision in journal.decisions if decision.id == retry.cause.decision)
        assert failed.actions == ("create ConfigMap default/hi-0",)
        (refused,) = [outcome for outcome in journal.outcomes if outcome.id == failed.id]
        assert (refused.result, refused.check) == ("rejected", "QuotaExceeded")
        assert refused.object is not None
        assert (refused.object.resource, refused.object.name) == ("configmaps", "hi-0")

    told(story)


def test_many_creates_that_go_well_are_sent_side_by_side() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await greet(world, "hi", copies=60)
        await ready(world, "hi")
        times = [at_s for at_s, ask in hosted(world).asks if ask.method == "POST"]
        assert len(cards(world)) == len(times) == 60
        assert len(set(times)) == 6  # 1, 2, 4, 8, 16, 29.

    told(story)


def test_after_a_write_that_nobody_knows_of_the_server_is_asked_before_anything_is_decided() -> None:
    """The answer is lost, and so is every attempt to read what came of it."""

    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await world.sleep(2)
        await greet(world, "hi", copies=1)
        await ready(world, "hi", within_s=120)
        results = [one.result for one in hosted(world).journal.outcomes]
        assert results[0] == "unknown"
        reasons = [one.reason for one in hosted(world).passes]
        assert reasons[0] == "OutcomeUnknown"
        posts = [ask for _, ask in hosted(world).asks if ask.method == "POST"]
        assert len(posts) == 1  # The one that was made, and was then seen.

    told(
        story,
        faults=[
            LoseReply(at_s=0, target="kit", match=POSTS),
            Refuse(at_s=0, target="kit", match="GET /api/v1/namespaces/default/configmaps/hi-0", status=503,
                   times=5),
        ],
    )  # fmt: skip


def test_a_create_without_an_answer_is_not_called_a_failure_when_its_object_has_gone_since() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await world.sleep(2)
        await greet(world, "hi", copies=1)
        await world.until(lambda: bool(cards(world)), within_s=5, what="the card is there")
        await world.delete(MAPS, "hi-0")
        await ready(world, "hi")
        results = [one.result for one in hosted(world).journal.outcomes if one.verb == "create"]
        assert results == ["unknown", "committed"]

    hold = HoldWatch(at_s=1.5, target="kit", match="/configmaps", for_s=30)
    told(story, faults=[LoseReply(at_s=0, target="kit", match=POSTS), hold])


def test_own_creates_are_seen_before_the_watch_tells_of_them() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await world.sleep(2)
        await greet(world, "hi", copies=5)
        await ready(world, "hi", within_s=5)
        posts = [ask for _, ask in hosted(world).asks if ask.method == "POST"]
        assert len(posts) == 5

    told(story, faults=[HoldWatch(at_s=1.5, target="kit", match="/configmaps", for_s=30)])


def test_an_own_delete_that_the_cache_does_not_show_holds_the_next_decision_and_that_is_said() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await greet(world, "hi", copies=4)
        await ready(world, "hi")
        await world.sleep(10 - world.now_s)
        await greet(world, "hi", copies=2)
        await world.until(
            lambda: said(world, "hi", "Reconciling") == ("True", "OwnWritesUnseen", 2),
            within_s=10,
            what="it says what it waits for",
        )
        assert len(cards(world)) == 2
        deletes = [ask for _, ask in hosted(world).asks if ask.method == "DELETE"]
        assert len(deletes) == 2  # Not again, though the cache still shows all four.
        await world.until(
            lambda: said(world, "hi", "Reconciling") == ("False", "Reconciled", 2),
            within_s=40,
            what="it takes that back",
        )
        assert is_ready(world, "hi")

    told(
        story,
        faults=[
            HoldWatch(at_s=9.5, target="kit", match="/configmaps", for_s=20),
            # Who is held for long lists again: that answer takes a while.
            SlowReply(at_s=9.5, target="kit", match="GET /api/v1/configmaps?limit", delay_s=5),
        ],
    )


class Sweeper:
    """Deletes what is marked, but only if its view is less than three seconds old."""

    name = "sweeper"
    watches = (Primary(CONFIG_MAP, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        found = view.get("ConfigMap", key)
        if found is None or (found.get("data") or {}).get("sweep") != "yes":
            return ReconcileResult.never()
        plan = Plan(deletes=(Delete(target("ConfigMap", found)),), needs=(NoOlderThan(3.0),))
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


def test_who_has_not_heard_from_the_server_destroys_nothing_until_it_has_asked() -> None:
    async def story(world: World) -> None:
        world.process("kit", hosting(Sweeper))
        await world.apply(MAPS, {"metadata": {"name": "m"}})
        await world.sleep(2)
        kit = hosted(world)
        # The watch is held from second 3 on: the mark is put in by hand, as an own write would be.
        await world.sleep(8 - world.now_s)
        marked = await world.apply(MAPS, {"metadata": {"name": "m"}, "data": {"sweep": "yes"}})
        world.engine.processes["kit"].call(0, kit.running.caches.apply_write, "ConfigMap", marked)
        await world.until(
            lambda: world.get("configmaps", Key("default", "m")) is None, within_s=20, what="it is swept"
        )
        assert [one.reason for one in kit.passes if one.result == "held"][:1] == ["Stale"]
        held = next(one for one in kit.journal.decisions if one.verdict == "hold")
        assert held.need.startswith("Stale: ConfigMap cache not confirmed current within ")
        lists = [at_s for at_s, ask in kit.asks if "limit=" in ask.target and at_s > 8]
        assert lists  # It asked how far the server is.

    told(story, faults=[HoldWatch(at_s=3, target="kit", match="/configmaps", for_s=60)])


def test_what_was_decided_before_a_cut_is_not_carried_out_from_an_old_view_after_it() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await greet(world, "hi", copies=3)
        await ready(world, "hi")
        before = metadata(look(world, "hi"))["resourceVersion"]
        await world.sleep(10 - world.now_s)
        await greet(world, "hi", copies=1)
        await greet(world, "hi", copies=3)
        await world.sleep(25)
        await ready(world, "hi")
        assert int(metadata(look(world, "hi"))["resourceVersion"]) > int(before)
        assert len(cards(world)) == 3

    told(story, faults=[Partition(at_s=9.5, target="kit", for_s=10, drops=True)])


def test_after_a_lost_race_the_next_decision_is_made_from_what_is_there_though_the_watch_is_dead() -> None:
    """1. The watch dies without a word. 2. Somebody changes the object. 3. Our write is refused: too old."""

    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(resync_s=5.0))
        await greet(world, "hi", copies=3)
        await ready(world, "hi")
        await world.sleep(10 - world.now_s)
        await greet(world, "hi", copies=1)  # Nobody tells the kit.
        # Something that makes it look again, and want to write: a copy is changed by hand.
        await world.api.patch(MAPS, "default", "hi-0", {"data": {"message": "changed"}})
        await ready(world, "hi", within_s=30)
        assert cards(world) == {"hi-0": "hello"}
        assert world.now_s < 45

    told(story, faults=[HoldWatch(at_s=9.5, target="kit", match="/greetings", for_s=120)])
