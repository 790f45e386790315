"""The operational failure modes of failure detection, retries and partial progress, each by its name."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.control.greetings import (
    MAPS,
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

from fathom.cache.needs import AtLeast
from fathom.client.api import Resource
from fathom.control.kit import Kit
from fathom.control.ownership import controller_of
from fathom.control.plan import Create, Patch, Plan, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.retry import Retry
from fathom.control.watches import CONFIG_MAP, NODE, Primary, Related, WatchedKind
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, metadata, uid_of
from fathom.sim.world.fault_menu import Menu, draw
from fathom.sim.world.faults import (
    AnyFault,
    Crash,
    CrashAtWrite,
    HoldWatch,
    LoseReply,
    Partition,
    Pause,
    Refuse,
)
from fathom.sim.world.invariants import Checker, Seen
from fathom.sim.world.world import World

QUOTAS = Resource("", "v1", "resourcequotas")
NODES = Resource("", "v1", "nodes", namespaced=False)
# Longer than it takes until a lease has run out, and until a watch that died without a word is given up: a
# server that has not shown yet that it sends bookmarks often is given 90 s.
QUIET_S = 120.0
ALL = tuple(f"g{number}" for number in range(8))


class Copies(Checker):
    """No slot is ever filled twice, and every copy has exactly one owner that controls it."""

    name = "one copy a slot"

    def __init__(self) -> None:
        self.made: dict[str, int] = {}  # Name -> how often it was created.

    def commit(self, change: Seen) -> str | None:
        if change.resource != "configmaps" or change.new is None or change.key.namespace != "default":
            return None
        references = metadata(change.new).get("ownerReferences") or ()
        if len([one for one in references if one.get("controller")]) > 1:
            return f"{change.key.name} has two controllers"
        if change.old is None and controller_of(change.new) is not None:
            self.made[change.key.name] = self.made.get(change.key.name, 0) + 1
        return None


async def all_ready(world: World, *names: str, within_s: float = 60) -> None:
    await world.until(
        lambda: all(is_ready(world, name) for name in names), within_s=within_s, what="all are ready"
    )


# Timeout means failure: a client retries after a timeout even though the write committed.


def test_timeout_means_failure_a_create_whose_answer_is_lost_is_found_and_not_repeated() -> None:
    copies = Copies()

    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await greet(world, "hi", copies=5)
        await all_ready(world, "hi")
        assert cards(world) == {f"hi-{slot}": "hello" for slot in range(5)}
        assert copies.made == {f"hi-{slot}": 1 for slot in range(5)}
        results = [one.result for one in hosted(world).journal.outcomes]
        assert results.count("settled") == 3
        posts = [ask for _, ask in hosted(world).asks if ask.method == "POST"]
        assert len(posts) == 5  # None was sent twice: each was settled by reading.

    lost = LoseReply(at_s=0, target="kit", match="POST /api/v1/namespaces/default/configmaps", times=3)
    told(story, faults=[lost], checkers=[copies])


def test_timeout_means_failure_a_patch_whose_answer_is_lost_is_found_by_what_it_wanted() -> None:
    async def story(world: World) -> None:
        await define(world)
        await greet(world, "hi", copies=2)
        world.process("kit", hosting())
        await all_ready(world, "hi")
        await greet(world, "hi", copies=1, message="bye")
        await all_ready(world, "hi")
        assert cards(world) == {"hi-0": "bye"}

    lost = [
        LoseReply(at_s=0, target="kit", match="PATCH", times=4),
        LoseReply(at_s=0, target="kit", match="DELETE", times=1),
    ]
    told(story, faults=lost)


def test_timeout_means_failure_a_request_that_arrives_late_collides_and_makes_nothing_twice() -> None:
    """1. A create hangs in the network. 2. It is given up, and made anew. 3. The first one arrives."""
    copies = Copies()

    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await world.sleep(2)
        async with world.held("POST /api/v1/namespaces/default/configmaps", process="kit"):
            await greet(world, "hi", copies=2)
            await world.sleep(25)
        await all_ready(world, "hi")
        assert copies.made == {"hi-0": 1, "hi-1": 1}

    told(story, checkers=[copies])


# Retry storm: many controllers retry immediately during an API or network incident.


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_retry_storm_during_an_outage_of_30_s_hardly_anything_is_sent(seed: str) -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(lease="default/kit", workers=8, drain_s=1.0))
        for name in ALL:
            await greet(world, name, copies=2)
        await all_ready(world, *ALL)
        for name in ALL:  # All of them have something to do when the server goes.
            await greet(world, name, copies=4)
        before_s = world.engine.now_ns / 1e9
        world.crash("api-1", restart_after_s=30)
        await world.sleep(30)
        sent = [at_s for at_s, _ in hosted(world).asks if at_s > before_s]
        callers = 8 + 2 + 1  # Workers, watches, the lease.
        renewals = 30 / 2 * 2  # One each two seconds, and a look at whose it is.
        assert len(sent) <= callers + 5 + 5 + renewals, len(sent)
        assert len([at_s for at_s in sent if at_s > before_s + 3]) <= 5 + renewals, len(sent)
        view = hosted(world).running.breaker.view
        assert (view.state in {"open", "half-open"}, view.opened >= 3) == (True, True)
        await all_ready(world, *ALL, within_s=120)
        assert len(cards(world)) == 4 * len(ALL)

    told(story, seed=seed)


def test_retry_storm_a_server_that_answers_but_fails_is_left_alone_too() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(workers=8))
        await world.sleep(1)
        for name in ALL:
            await greet(world, name)
        await world.sleep(30)
        sent = [at_s for at_s, _ in hosted(world).asks if at_s > 1]
        assert len(sent) <= 8 + 2 + 5 + 5, len(sent)
        world.heal()
        await all_ready(world, *ALL, within_s=60)

    told(story, faults=[Refuse(at_s=0.5, target="kit", match="", status=503, times=100_000, for_s=30)])


# Progress hidden in logs: operators cannot tell whether work is admitted, bound, starting, or ready.


def quota(name: str, hard: int) -> Obj:
    return {"metadata": {"name": name}, "spec": {"hard": {"count/configmaps": str(hard)}}}


def test_progress_hidden_in_logs_a_retry_says_in_the_status_what_it_waits_for() -> None:
    async def story(world: World) -> None:
        await define(world)
        await world.apply(QUOTAS, quota("few", 2))
        world.process("kit", hosting())
        await greet(world, "hi", copies=4)
        await world.until(
            lambda: said(world, "hi", "Reconciling") == ("True", "Forbidden", 1),
            within_s=20,
            what="the status says that it is being retried",
        )
        found = find_condition(conditions_of(look(world, "hi")), "Reconciling")
        assert found is not None
        assert "create ConfigMap default/hi-" in found["message"]
        assert "exceeded quota: few" in found["message"]
        # Partial progress is progress: what could be made is there, and is counted.
        assert len(cards(world)) == 2
        assert look(world, "hi")["status"]["copies"] == 2
        assert said(world, "hi", "Ready") == ("False", "Writing", 1)
        await world.delete(QUOTAS, "few")
        await all_ready(world, "hi", within_s=60)
        assert said(world, "hi", "Reconciling") == ("False", "Reconciled", 1)

    told(story)


def test_progress_hidden_in_logs_who_is_given_up_is_stalled_and_a_new_generation_starts_anew() -> None:
    async def story(world: World) -> None:
        await define(world)
        await world.apply(QUOTAS, quota("none", 0))
        world.process("kit", hosting(retry=Retry(attempts_max=4, backoff_s_max=1.0)))
        await greet(world, "hi", copies=1)
        await world.until(
            lambda: said(world, "hi", "Stalled") == ("True", "Forbidden", 1),
            within_s=30,
            what="it is given up",
        )
        assert said(world, "hi", "Reconciling") in {None, ("False", "Forbidden", 1)}
        assert hosted(world).running.view.troubles["greetings"]["default/hi"].given_up
        await world.sleep(60)
        tries = len([one for one in hosted(world).passes if one.result in {"failed", "gave-up"}])
        # Four that count, and one that its first status brought about. What it says of its progress does not
        # wake it.
        assert tries == 5
        await greet(world, "hi", copies=1, message="again")
        await world.sleep(30)
        tries = len([one for one in hosted(world).passes if one.result in {"failed", "gave-up"}])
        assert tries == 10
        assert said(world, "hi", "Stalled") == ("True", "Forbidden", 2)

    told(story)


# Duplicate ownership: two controllers believe they own the same action.


def test_duplicate_ownership_what_belongs_to_another_is_left_alone_and_said() -> None:
    async def story(world: World) -> None:
        await define(world)
        await world.apply(MAPS, {"metadata": {"name": "hi-1"}, "data": {"mine": "yes"}})
        world.process("kit", hosting())
        await greet(world, "hi", copies=2)
        await world.until(
            lambda: said(world, "hi", "Reconciling") == ("True", "NameTaken", 1),
            within_s=20,
            what="it is said",
        )
        theirs = world.get("configmaps", Key("default", "hi-1"))
        assert theirs is not None
        assert (theirs["data"], controller_of(theirs)) == ({"mine": "yes"}, None)

    told(story)


@pytest.mark.parametrize("seed", range(6))
def test_duplicate_ownership_two_processes_under_pauses_and_cuts_fill_every_slot_once(seed: int) -> None:
    copies = Copies()

    async def story(world: World) -> None:
        await define(world)
        for name in ("one", "two"):
            world.process(name, hosting(lease="default/kit", who=name))
        for number in range(12):
            await greet(world, f"g{number % 4}", copies=1 + number % 5)
            await world.sleep(5)
        world.heal()
        await world.settle(quiet_s=QUIET_S)
        wanted = {f"g{number % 4}": 1 + number % 5 for number in range(12)}
        for name, count in wanted.items():
            owner = uid_of(look(world, name))
            mine = [
                card for card in world.list("configmaps", "default")
                if (controller_of(card) or {}).get("uid") == owner
            ]  # fmt: skip
            assert len(mine) == count, (name, len(mine), count)

    rng = random.Random(f"two/{seed}")
    faults: list[AnyFault] = [
        *draw(rng, Menu(processes=("one", "two"), kinds=("configmaps", "greetings"), seconds=60, most=8)),
        Pause(at_s=10 + rng.random() * 20, target=rng.choice(("one", "two")), for_s=20),
        Partition(at_s=30 + rng.random() * 20, target=rng.choice(("one", "two")), for_s=20),
    ]
    told(story, seed=str(seed), faults=faults, checkers=[copies])


# Permanent partial state: reservations, finalizers, or bindings remain after the workload disappears.


def test_permanent_partial_state_after_a_crash_its_children_are_found_by_whose_they_are() -> None:
    copies = Copies()

    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting())
        await greet(world, "hi", copies=6)
        await all_ready(world, "hi", within_s=60)
        assert copies.made == {f"hi-{slot}": 1 for slot in range(6)}
        assert world.engine.processes["kit"].incarnation == 2

    # It dies just after its third write; nobody wrote down that it had made three.
    told(story, faults=[CrashAtWrite(at_s=0, target="kit", times=3, for_s=5)], checkers=[copies])


class Keeper:
    """Holds a finalizer on every ConfigMap that asks for it, and a record beside it; both go together."""

    name = "keeper"
    watches = (Primary(CONFIG_MAP, conditions=False),)
    FINALIZER = "example.dev/keeper"

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        kept = view.get("ConfigMap", key)
        if kept is None or not key.name.startswith("kept"):
            return ReconcileResult.never()
        plan = plan_keeping(kept, view.get("ConfigMap", Key(key.namespace, f"record-of-{key.name}")))
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


def plan_keeping(kept: Obj, record: Obj | None) -> Plan:
    from fathom.control.plan import OWN_WRITES, Delete, add_finalizer, remove_finalizer

    name, namespace = metadata(kept)["name"], metadata(kept)["namespace"]
    if not metadata(kept).get("deletionTimestamp"):
        made = {"metadata": {"name": f"record-of-{name}", "namespace": namespace}}
        if "example.dev/keeper" not in (metadata(kept).get("finalizers") or ()):
            return Plan(patches=add_finalizer("ConfigMap", kept, Keeper.FINALIZER))
        return Plan(creates=() if record is not None else (Create("ConfigMap", made),))
    if record is not None:
        return Plan(deletes=(Delete(target("ConfigMap", record)),), needs=(OWN_WRITES,))
    return Plan(patches=remove_finalizer("ConfigMap", kept, Keeper.FINALIZER))


@pytest.mark.slow
@pytest.mark.parametrize("writes", range(1, 6))
def test_permanent_partial_state_a_finalizer_outlives_a_crash_at_any_write_and_goes_in_the_end(
    writes: int,
) -> None:
    def names(world: World) -> list[str]:
        return sorted(
            name
            for one in world.list("configmaps", "default")
            if "kept" in (name := str(metadata(one)["name"]))
        )

    async def story(world: World) -> None:
        world.process("kit", hosting(Keeper))
        await world.apply(MAPS, {"metadata": {"name": "kept"}})
        await world.until(
            lambda: names(world) == ["kept", "record-of-kept"], within_s=60, what="there is a record"
        )
        await world.sleep(2)
        await world.delete(MAPS, "kept")
        await world.until(lambda: names(world) == [], within_s=60, what="both are gone")

    told(story, faults=[CrashAtWrite(at_s=0, target="kit", times=writes, for_s=3)])


# Stale policy during a canary: the policy is new, the nodes it is applied to are old.

POLICY = WatchedKind(
    "SchedulingPolicy", Resource("fathom.dev", "v1alpha1", "schedulingpolicies", namespaced=False)
)


class Canary:
    """Marks every node that is free when a policy becomes active. That one is free must be known as of then:
    the changes of nodes up to the activation must have been seen."""

    name = "canary"
    watches = (Primary(CONFIG_MAP, conditions=False), Related(NODE))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        policy = view.get("ConfigMap", key)
        if policy is None or key.name != "policy":
            return ReconcileResult.never()
        plan = plan_canary(policy, view.list("Node"))
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))


def plan_canary(policy: Obj, nodes: list[Obj]) -> Plan:
    active = int(metadata(policy)["resourceVersion"])
    free = [node for node in nodes if not (metadata(node).get("labels") or {}).get("taken")]
    mark = {"metadata": {"labels": {"taken": "canary"}}}
    return Plan(
        patches=tuple(Patch(target("Node", node), mark, destructive=True) for node in free),
        needs=(AtLeast({"Node": active}),),
        why=f"{len(free)} free nodes at revision {active}",
    )


def test_stale_policy_during_a_canary_the_decision_waits_for_nodes_as_new_as_the_policy() -> None:
    async def story(world: World) -> None:
        for name in ("b6", "b7"):
            await world.apply(NODES, {"metadata": {"name": name}})
        world.process("kit", hosting(Canary))
        await world.sleep(5)
        # The nodes' watch hangs from here on; b7 is taken by another, and the kit does not hear of it.
        await world.api.patch(NODES, "", "b7", {"metadata": {"labels": {"taken": "another"}}})
        await world.apply(MAPS, {"metadata": {"name": "policy"}})
        await world.sleep(10)
        kit = hosted(world)
        assert [one.verdict for one in kit.journal.decisions][:1] == ["hold"]
        assert kit.journal.decisions[0].need.startswith(
            "BehindRevision: Node cache has not reached revision "
        )
        assert [one.verdict for one in kit.journal.decisions].count("hold") == 1  # Said once, held often.
        assert {one.reason for one in kit.passes if one.result == "held"} == {"BehindRevision"}
        labels = {
            str(metadata(node)["name"]): (metadata(node).get("labels") or {}).get("taken")
            for node in world.list("nodes")
        }
        return_to = {"b6": "canary", "b7": "another"}
        if labels != return_to:  # Nothing yet, or all of it rightly: never b7.
            assert labels == {"b6": None, "b7": "another"}
        await world.until(
            lambda: (
                (metadata(world.get("nodes", Key("", "b6")) or {}).get("labels") or {}).get("taken")
                == "canary"
            ),
            within_s=60,
            what="b6 is marked once the nodes are known",
        )
        b7 = world.get("nodes", Key("", "b7"))
        assert b7 is not None
        assert metadata(b7)["labels"] == {"taken": "another"}

    told(story, faults=[HoldWatch(at_s=4.5, target="kit", match="/nodes", for_s=30)])


# Failure detector too aggressive is the node controller's; here: one key's trouble is not another's.


class Bomb:
    """Dies on some keys, hangs on others."""

    name = "bomb"
    watches = (Primary(CONFIG_MAP, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        if key.name.startswith("dies"):
            raise RuntimeError("boom")
        if key.name.startswith("cancels"):
            raise asyncio.CancelledError("from inside")
        if key.name.startswith("hangs"):
            await asyncio.sleep(100_000)
        if key.name.startswith("good"):
            view = self._kit.snapshot()
            good = view.get("ConfigMap", key)
            if good is not None and "done" not in (good.get("data") or {}):
                done = Patch(target("ConfigMap", good), {"data": {"done": "yes"}})
                return ReconcileResult.after(await self._kit.apply(key, Plan(patches=(done,)), seen=view))
        return ReconcileResult.never()


def test_a_pass_that_dies_or_hangs_is_written_down_and_backed_off_and_the_others_go_on() -> None:
    async def story(world: World) -> None:
        for name in ("dies", "hangs", "cancels", *(f"good-{n}" for n in range(20))):
            await world.apply(MAPS, {"metadata": {"name": name}})
        world.process("kit", hosting(Bomb, workers=2))
        await world.until(
            lambda: all(
                "done" in ((world.get("configmaps", Key("default", f"good-{n}")) or {}).get("data") or {})
                for n in range(20)
            ),
            within_s=20,
            what="the good ones are done",
        )
        await world.sleep(100)
        kit = hosted(world)
        deaths = [fields for event, fields in kit.log.lines if event == "reconcile raised an exception"]
        assert {fields["key"] for fields in deaths} == {"default/dies", "default/cancels"}
        boom = next(fields for fields in deaths if fields["key"] == "default/dies")
        assert 'raise RuntimeError("boom")' in boom["stack"]
        died = [one for one in kit.journal.decisions if one.verdict == "died"]
        assert [fields["decision"] for fields in deaths] == [one.id for one in died]
        assert 'raise RuntimeError("boom")' in next(one for one in died if one.subject.name == "dies").message
        reasons = {one.key.name: one.reason for one in kit.passes if one.result == "failed"}
        assert reasons == {"dies": "InternalError", "cancels": "InternalError", "hangs": "PassTimedOut"}
        tries = len([one for one in kit.passes if one.key.name == "dies"])
        assert 8 <= tries <= 16  # Backed off, not hammered.

    told(story)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_goes_wrong_in_the_end_all_is_as_wanted_and_nothing_was_made_twice_at_a_time(
    seed: int,
) -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(lease="default/kit", resync_s=30.0))
        for number in range(15):
            await greet(world, f"g{number % 3}", copies=number % 6, message=f"m{number}")
            await world.sleep(3)
        await world.heal_and_settle(quiet_s=QUIET_S)
        expected = {
            f"g{number % 3}-{slot}": f"m{number}" for number in range(12, 15) for slot in range(number % 6)
        }
        assert cards_sorted(world) == sorted(expected.values())
        for name in ("g0", "g1", "g2"):
            assert is_ready(world, name), look(world, name)

    rng = random.Random(f"any/{seed}")
    menu = Menu(processes=("kit",), kinds=("configmaps", "greetings", "leases"), seconds=45, most=10)
    told(story, seed=str(seed), faults=[*draw(rng, menu), Crash(at_s=20, target="kit", for_s=2)])


def cards_sorted(world: World) -> list[Any]:
    """Which slots were free when depends on what went wrong; how many copies there are does not."""
    return sorted(cards(world).values())
