"""One leader at a time as far as clocks can tell; and where they cannot, no stale leader's write commits."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control.stage import Stage
from tests.control.worlds import Story, told, violation_of

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.control.lease import (
    Elector,
    Fenced,
    LeaderTerm,
    LeaseStatus,
    Sighting,
    Timing,
    is_free,
    sighted,
    taken_over,
)
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import LEASES
from fathom.seams.process import Inside
from fathom.seams.seam import Ask, Reply, Stream
from fathom.sim.world.fault_menu import Menu, draw
from fathom.sim.world.faults import AnyFault, LoseReply, LoseRequest, Partition, Pause, Skew
from fathom.sim.world.invariants import Checker, Seen
from fathom.sim.world.world import World

LEASE = Key("default", "leader")
MAPS = Resource("", "v1", "configmaps")
S = 1_000_000_000


class Contender:
    """A process that writes as long as it leads, signing with its term."""

    def __init__(
        self, inside: Inside, *, who: str, fences: bool, every_s: float, predecessor: str = ""
    ) -> None:
        self.inside = inside
        self.predecessor = predecessor
        self.fences = fences
        self.every_s = every_s
        self.said: list[LeaseStatus] = []
        self.outcomes: list[Outcome] = []
        outside = inside.outside
        self.elector = Elector(
            Api(inside.seam),
            LEASE,
            identity_prefix=who,
            clock=outside.clock,
            ids=outside.ids,
            rng=outside.rng,
            on_change=self.said.append,
        )
        self.term: LeaderTerm | None = None
        self.running = asyncio.get_running_loop().create_task(self.run())

    async def run(self) -> None:
        while True:
            self.term = term = await self.elector.campaign(self.predecessor)
            self.predecessor = ""
            writing = asyncio.get_running_loop().create_task(self.write(term))
            await self.elector.keep(term)
            writing.cancel()

    async def write(self, term: LeaderTerm) -> None:
        api = Api(Fenced(self.inside.seam, term) if self.fences else self.inside.seam)
        number = 0
        while True:
            number += 1
            name = f"{term.identity.replace('_', '-')}-{number}"
            meta = {"name": name, "annotations": {"term": term.identity}}
            self.outcomes.append(await api.create(MAPS, "default", {"metadata": meta}))
            await asyncio.sleep(self.every_s)


class NoStaleWrite(Checker):
    """At the commit of every write its writer is the holder of the lease in the store."""

    name = "no write behind a lost fence"

    def __init__(self) -> None:
        self.holder = ""
        self.terms: list[str] = []  # In the order they wrote.

    def commit(self, change: Seen) -> str | None:
        if change.resource == LEASES.name and change.new is not None:
            self.holder = str(lookup(change.new, "spec", "holderIdentity"))
        term = lookup(change.new or {}, "metadata", "annotations", "term")
        if term is None:
            return None
        self.terms += [term] if self.terms[-1:] != [term] else []
        return None if term == self.holder else f"{term} wrote while {self.holder} held the lease"


class Cast:
    """The contenders of a story; each starts when the story says so."""

    def __init__(self, *, fences: bool = True, every_s: float = 0.5) -> None:
        self.checker = NoStaleWrite()
        self.fences = fences
        self.every_s = every_s

    def start(self, world: World, *names: str) -> None:
        for name in names:
            world.process(name, lambda inside, who=name: self._enter(inside, who))  # type: ignore[misc]  # bound now

    def start_after(self, world: World, name: str, predecessor: str) -> None:
        """Its host has seen the predecessor stop."""
        world.process(name, lambda inside: self._enter(inside, name, predecessor))

    def _enter(self, inside: Inside, who: str, predecessor: str = "") -> Contender:
        return Contender(inside, who=who, fences=self.fences, every_s=self.every_s, predecessor=predecessor)

    def told(self, story: Story, **options: Any) -> list[str]:
        """The terms that wrote, in order."""
        told(story, checkers=[self.checker], **options)
        return self.checker.terms


def contender(world: World, name: str) -> Contender:
    found = world.state(name)
    assert isinstance(found, Contender)
    return found


def leading(world: World) -> str:
    lease = world.get(LEASES.name, LEASE)
    return str(lookup(lease, "spec", "holderIdentity")).partition("_")[0] if lease else ""


def test_the_first_to_ask_leads_and_the_other_waits() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(1)
        cast.start(world, "b")
        await world.sleep(120)
        assert leading(world) == "a"
        assert [lease_status.state for lease_status in contender(world, "a").said] == ["standby", "leading"]
        assert [lease_status.state for lease_status in contender(world, "b").said] == ["standby"]

    assert len(cast.told(story)) == 1


def test_a_dead_leader_is_followed_when_its_lease_has_not_changed_for_its_duration() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a", "b")
        await world.sleep(10)
        died = leading(world)
        successor = {"a": "b", "b": "a"}[died]
        world.kill(died)
        await world.sleep(12)
        assert leading(world) == died
        await world.until(lambda: leading(world) == successor, within_s=8, what="the other takes over")

    assert len(cast.told(story)) == 2


def test_who_follows_a_holder_that_is_known_to_be_dead_leads_within_seconds() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a", "b")
        await world.sleep(10)
        died = leading(world)
        term = contender(world, died).term
        assert term is not None
        world.kill(died)
        cast.start_after(world, "next", term.identity)
        await world.until(lambda: leading(world) == "next", within_s=5, what="the next one leads")

    assert len(cast.told(story)) == 2


def test_a_wall_clock_that_is_wrong_or_stands_changes_nothing() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(5)
        cast.start(world, "b")
        await world.sleep(10)
        # The leader's clock stands from now on, the other's is far ahead.
        clock = contender(world, "a").inside.outside.clock
        stood_ns = clock.now_ns()
        clock.now_ns = lambda: stood_ns  # type: ignore[method-assign]  # a broken clock
        await world.sleep(120)
        assert leading(world) == "a"

    faults = [Skew(at_s=7, target="b", skew_s=3600.0), Skew(at_s=7, target="a", skew_s=-3600.0)]
    assert len(cast.told(story, faults=faults)) == 1


def test_a_leader_that_cannot_renew_stops_writing_before_anybody_may_take_over() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(5)
        cast.start(world, "b")
        await world.sleep(70)

    for seed in range(5):
        cut = [Partition(at_s=12, target="a", for_s=40, drops=True)]
        # Without fences: it is its own clock that keeps it from writing.
        cast = Cast(fences=False)
        assert len(cast.told(story, seed=str(seed), faults=cut)) == 2


def test_a_write_that_was_held_up_while_the_lease_changed_hands_is_refused() -> None:
    """1. a sends a write. 2. It is held in the network. 3. a pauses, b takes over. 4. The write arrives."""

    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(5)
        cast.start(world, "b")
        async with world.held("POST /api/v1/namespaces/default/configmaps", process="a"):
            await world.sleep(1)
            world.pause("a", 40)
            await world.until(lambda: leading(world) == "b", within_s=30, what="b leads")
        await world.sleep(30)

    assert len(cast.told(story)) == 2
    cast = Cast(fences=False)
    found = violation_of(story, checkers=[cast.checker])
    assert found is not None
    assert found.invariant == "no write behind a lost fence"


def test_a_leader_paused_between_its_look_at_the_clock_and_its_write_does_no_harm() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(5)
        cast.start(world, "b")
        await world.sleep(5)
        # The worst pause: its clock stands too, so it believes that no time has passed.
        world.pause("a", 60)
        await world.until(lambda: leading(world) == "b", within_s=30, what="b leads")
        term = contender(world, "a").term
        assert term is not None
        term.until_ns += 1000 * S
        async with world.held("PUT /apis/coordination", process="a"):  # Nor does it hear of the new leader.
            await world.sleep(60)
        stale = [outcome for outcome in contender(world, "a").outcomes if not isinstance(outcome, Committed)]
        assert stale
        assert term.ended == "fenced: epoch 1 is over"

    assert len(cast.told(story)) == 2


@pytest.mark.parametrize("seed", range(12))
def test_under_any_pauses_skews_cuts_and_lost_answers_no_stale_write_commits(seed: int) -> None:
    cast, names = Cast(), ("a", "b", "c")

    async def story(world: World) -> None:
        cast.start(world, *names)
        await world.sleep(120)
        world.heal()
        await world.until(lambda: leading(world) in names, within_s=60, what="somebody leads")
        before = len(world.list("configmaps", "default"))
        await world.sleep(30)
        assert len(world.list("configmaps", "default")) > before

    rng = random.Random(f"lease/{seed}")
    menu = Menu(processes=names, servers=("api-1",), kinds=("leases", "configmaps"), seconds=100, most=10)
    faults = [
        *draw(rng, menu),
        Pause(at_s=round(rng.random() * 100, 3), target=rng.choice(names), for_s=20),
        Partition(at_s=round(rng.random() * 100, 3), target=rng.choice(names), for_s=20),
    ]
    cast.told(story, seed=str(seed), faults=faults)


def test_a_lease_taken_without_hearing_of_it_is_ours_once_it_is_read() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(20)
        assert leading(world) == "a"
        assert lookup(world.get(LEASES.name, LEASE), "spec", "leaseTransitions") == 0
        assert contender(world, "a").said[-1].state == "leading"

    cast.told(story, faults=[LoseReply(at_s=0, target="a", match="POST /apis/coordination")])


def test_a_renewal_whose_answer_is_lost_is_found_by_reading() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(60)
        assert [lease_status.state for lease_status in contender(world, "a").said] == ["standby", "leading"]

    lost: list[AnyFault] = [LoseReply(at_s=t, target="a", match="PUT /apis/coord") for t in range(5, 60, 10)]
    gone: list[AnyFault] = [
        LoseRequest(at_s=t, target="a", match="PUT /apis/coord") for t in range(9, 60, 10)
    ]
    assert len(cast.told(story, faults=lost + gone)) == 1


def test_a_deleted_lease_ends_the_term_and_the_next_one_has_another_epoch() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(5)
        lease = world.get(LEASES.name, LEASE)
        assert lease is not None
        await world.api.delete(LEASES, "default", "leader", uid=metadata(lease)["uid"])
        await world.sleep(10)
        said = contender(world, "a").said
        assert [(one.state, one.epoch) for one in said] == [
            ("standby", None),
            ("leading", 1),
            ("lost", 1),
            ("standby", None),
            ("leading", 2),
        ]
        assert said[2].why == "the lease was deleted"

    assert len(cast.told(story)) == 2


def test_a_touch_by_somebody_else_does_not_cost_the_lease() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        for number in range(20):
            await world.sleep(1.7)
            await world.api.patch(LEASES, "default", "leader", {"metadata": {"labels": {"n": str(number)}}})
        assert contender(world, "a").said[-1].state == "leading"

    assert len(cast.told(story)) == 1


def test_a_released_lease_is_free_at_once_and_its_epoch_is_over() -> None:
    cast = Cast()

    async def story(world: World) -> None:
        cast.start(world, "a")
        await world.sleep(5)
        cast.start(world, "b")
        await world.sleep(5)
        a = contender(world, "a")
        released: list[bool] = []

        async def release() -> None:
            assert a.term is not None
            a.running.cancel()
            released.append(await a.elector.release(a.term))

        world.engine.processes["a"].call(0, lambda: asyncio.get_running_loop().create_task(release()))
        await world.until(lambda: leading(world) == "b", within_s=4, what="b leads")
        lease = world.get(LEASES.name, LEASE)
        assert (released, a.said[-1].state) == ([True], "released")
        assert lookup(lease, "metadata", "annotations", "fathom.dev/epoch") == "3"

    assert len(cast.told(story)) == 2


# The pure parts, and a server without fences.


def lease(holder: str = "x", **spec: Any) -> Obj:
    return {"metadata": {"name": "l"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec}}


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["t1", "t2", "t3"])), min_size=1))
def test_a_lease_is_as_old_as_its_last_change_in_our_own_eyes(looks: list[tuple[int, str]]) -> None:
    now_s, seen = 0, None
    changed_s, last = 0, ""
    for wait_s, said in looks:
        now_s += wait_s
        if said != last:
            changed_s, last = now_s, said
        seen = sighted(seen, lease(renewTime=said), now_ns=now_s * S)
        assert seen.at_ns == changed_s * S
        assert is_free(seen, duration_s=4, now_ns=now_s * S) == (now_s - changed_s >= 15)
        assert is_free(seen, duration_s=20, now_ns=now_s * S) == (now_s - changed_s >= 20)


def test_a_lease_that_nobody_holds_is_free() -> None:
    for spec in ({}, {"holderIdentity": ""}, {"holderIdentity": None, "leaseDurationSeconds": 15}):
        assert is_free(Sighting(spec, 0), duration_s=15, now_ns=0)


def test_a_lease_in_new_hands_keeps_its_revision_and_counts_the_change() -> None:
    old = {
        "metadata": {"name": "l", "resourceVersion": "7"},
        "spec": {"holderIdentity": "x", "leaseTransitions": 3},
    }
    assert taken_over(old, Key("ns", "l"), holder="me", duration_s=15, now="T") == {
        "metadata": {"name": "l", "resourceVersion": "7"},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "T",
            "renewTime": "T",
            "leaseTransitions": 4,
        },
    }


@pytest.mark.parametrize("bad", [(10, 10.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0)])
def test_timing_that_cannot_work_is_refused(bad: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="duration > renew deadline > retry"):
        Timing(*bad)


class Noting:
    def __init__(self, reply: Reply = Reply(201, b"{}")) -> None:  # noqa: B008  # Frozen.
        self.asks: list[Ask] = []
        self.reply = reply

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        self.asks.append(ask)
        return self.reply

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        raise AssertionError("no stream here")


def test_without_an_epoch_no_fence_is_named_and_with_one_only_on_writes() -> None:
    stage = Stage()
    for notes, expected in (({}, None), ({"fathom.dev/epoch": "4"}, ("fathom-fence", "ns/l/4"))):
        wire = Noting()
        held = {"metadata": {"annotations": notes}, "spec": {}}
        fenced = Fenced(wire, LeaderTerm(Key("ns", "l"), "me", held, until_ns=10 * S))
        stage.finish(fenced.request(Ask("GET", "/x"), timeout_s=1))
        stage.finish(fenced.request(Ask("POST", "/x", headers=(("a", "b"),)), timeout_s=1))
        wanted = (("a", "b"), expected) if expected else (("a", "b"),)
        assert [ask.headers for ask in wire.asks] == [(), wanted]


def test_where_there_are_fences_a_term_knows_how_far_the_store_was_when_it_began() -> None:
    def floor(**meta: Any) -> int | None:
        return LeaderTerm(Key("ns", "l"), "me", {"metadata": meta, "spec": {}}, until_ns=10 * S).floor

    fenced = {"fathom.dev/epoch": "4"}
    assert floor(resourceVersion="41", annotations=fenced) == 41
    assert floor(resourceVersion="41") is None
    assert floor(annotations=fenced) is None


def test_nothing_is_sent_once_the_lease_may_be_lost() -> None:
    stage, wire = Stage(), Noting()
    term = LeaderTerm(Key("ns", "l"), "me", {"spec": {}}, until_ns=10 * S)
    api = Api(Fenced(wire, term))
    stage.until(10)
    outcome = stage.finish(api.create(MAPS, "ns", {"metadata": {"name": "x"}}))
    assert outcome == Rejected(
        403, "NotLeader", "not sent: lease ns/l may be lost: it was not renewed in time"
    )
    assert wire.asks == []
    wire.reply = Reply(404, b"{}")
    assert stage.finish(api.get(MAPS, "ns", "x")) is None


def test_a_refusal_to_give_the_lease_is_said_once() -> None:
    stage = Stage()
    said: list[LeaseStatus] = []
    no = Reply(403, b'{"reason":"Forbidden","message":"leases is forbidden"}')

    class Closed(Noting):
        async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
            return Reply(404, b"{}") if ask.method == "GET" else no

    class Fixed:
        def now_ns(self) -> int:
            return 0

        monotonic_ns = now_ns

        def uid(self) -> str:
            return "u"

        suffix = uid

    fixed = Fixed()
    elector = Elector(
        Api(Closed()),
        LEASE,
        identity_prefix="me",
        clock=fixed,
        ids=fixed,
        rng=random.Random(1),
        on_change=said.append,
    )
    task = stage.begin(elector.campaign())
    stage.wait(60)
    stage.do(task.cancel)
    assert said == [
        LeaseStatus(LEASE, "me_u", "standby"),
        LeaseStatus(LEASE, "me_u", "standby", why="leases is forbidden"),
    ]
