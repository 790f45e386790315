"""What the checkers of answers and of writes take for right, and what for wrong."""

from __future__ import annotations

from typing import Any

from tests.sim.small import config_map, passes, story

from fathom.client.api import Api
from fathom.client.outcomes import Committed
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Key, Obj
from fathom.model.resources import NODES, PODS
from fathom.schedule.loop.bind_requests import BINDING_BATCHES
from fathom.seams.seam import Ask
from fathom.sim.checkers.api_answers import AnswersAreTrue
from fathom.sim.checkers.store_history import StoreHistory, asked_of
from fathom.sim.checkers.watch_order import WatchOrder
from fathom.sim.checkers.writes import WritesAreAsAsked
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.world.faults import CommitUnknown, StaleServer
from fathom.sim.world.invariants import Seen
from fathom.sim.world.world import World

PATH = "/api/v1/namespaces/default/pods"


def thing(name: str, revision: int = 0, **more: Any) -> Obj:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": {**meta, **({"resourceVersion": str(revision)} if revision else {})}, **more}


def seen(revision: int, name: str, old: Obj | None, new: Obj | None, ask: Ask | None = None) -> Seen:
    return Seen("pods", Key("default", name), revision, old, new, 0.0, "somebody", 1, ask=ask)


def past() -> StoreHistory:
    """a came at 5, b at 6; a changed at 7, b went at 8."""
    found, a, b = StoreHistory(()), thing("a"), thing("b")
    for change in (seen(5, "a", None, a), seen(6, "b", None, b), seen(7, "a", a, a), seen(8, "b", b, None)):
        found.record(change)
    return found


def watch(query: str, *events: tuple[str, Obj], floor: int = 0) -> list[str]:
    asked = asked_of(f"{PATH}?watch=true&{query}")
    assert asked is not None
    followed = WatchOrder(past(), asked, floor)
    return [wrong for event in events if (wrong := followed.take(*event)) is not None]


def bookmark(revision: int) -> tuple[str, Obj]:
    return "BOOKMARK", {"metadata": {"resourceVersion": str(revision)}}


def test_what_there_was_is_known_of_every_revision() -> None:
    found = past()
    there = [found.at("pods", revision, lambda path, obj: True) for revision in (4, 5, 6, 7, 8)]
    a, b = "default/a", "default/b"
    assert there == [{}, {a: 5}, {a: 5, b: 6}, {a: 7, b: 6}, {a: 7}]


def test_a_watch_that_tells_everything_in_order_is_right() -> None:
    told = (("MODIFIED", thing("a", 7)), bookmark(7), ("DELETED", thing("b", 8)), bookmark(9))
    assert watch("resourceVersion=6", *told) == []


def test_a_watch_that_leaves_something_out_is_wrong() -> None:
    assert watch("resourceVersion=6", ("DELETED", thing("b", 8))) == [
        "sent default/b at 8, but the next event was default/a at 7"
    ]


def test_a_bookmark_that_is_ahead_of_what_was_told_is_wrong() -> None:
    assert watch("resourceVersion=6", bookmark(8)) == [
        "sent a bookmark of revision 8, but not default/a at 7"
    ]


def test_a_change_that_is_told_as_another_one_is_wrong() -> None:
    assert watch("resourceVersion=6", ("ADDED", thing("a", 7))) == [
        "sent default/a at 7 as ADDED, but it is MODIFIED"
    ]


def test_all_that_there_is_must_be_all() -> None:
    everything = "sendInitialEvents=true"
    assert watch(everything, ("ADDED", thing("a", 5)), ("ADDED", thing("b", 6)), bookmark(6)) == []
    assert watch(everything, ("ADDED", thing("a", 5)), bookmark(6)) == [
        "the initial events of revision 6 differ from the store's objects: [('default/b', 6)]"
    ]
    assert watch(everything, ("ADDED", thing("a", 5)), bookmark(5), floor=6) == [
        "the initial events are of revision 5, but 6 had been sent before"
    ]


def test_servers_are_heard_and_what_they_say_is_right() -> None:
    async def reads_and_writes(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.apply(CONFIG_MAPS, config_map(name))
        api: Api = world.api
        page = await api.list_page(CONFIG_MAPS, "default", limit=2)
        await world.delete(CONFIG_MAPS, "c")
        rest = await api.list_page(CONFIG_MAPS, "default", limit=2, token=page.token)
        assert [item["metadata"]["name"] for item in (*page.items, *rest.items)][-1] == "c"
        assert await api.get(CONFIG_MAPS, "default", "c") is None

    passes(story(reads_and_writes, checkers=lambda: (AnswersAreTrue(), WritesAreAsAsked())))


def test_a_batch_that_says_its_outcome_is_unknown_acknowledges_nothing() -> None:
    """1. The server hears no changes of the store. 2. The store commits a batch of bindings, and its answer
    is lost. 3. The server says so, pod by pod, before its cache has the commit."""
    seen: list[str] = []

    async def binds_in_a_batch(world: World) -> None:
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
        await world.apply(NODES, node)
        containers = [{"name": "c", "image": "i"}]
        pod = await world.apply(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
        await world.sleep(5)
        ask = {"namespace": "default", "name": "p", "uid": pod["metadata"]["uid"], "node": "n"}
        answer = await world.api.create(BINDING_BATCHES, "", {"items": [ask]})
        assert isinstance(answer, Committed)
        seen.extend(result["status"] for result in answer.obj["results"])
        await world.sleep(5)

    faults = (StaleServer(at_s=4.0, target="api-1", for_s=4.0), CommitUnknown(at_s=4.5, target="api-1"))
    passes(story(binds_in_a_batch, checkers=lambda: (AnswersAreTrue(),)), faults)
    assert seen == ["Unknown"]


def written(ask: Ask, old: Obj, new: Obj | None) -> Any:
    checker = WritesAreAsAsked()
    checker.commit(seen(5, "a", None, old))
    return checker.commit(seen(6, "a", old, new, ask))


def patch(body: Obj, subresource: str = "") -> Ask:
    return Ask("PATCH", f"{PATH}/a{subresource}", body, (("content-type", MERGE_PATCH),))


def test_who_names_a_revision_or_a_uid_writes_that_one() -> None:
    a = thing("a", spec={"n": 1})
    b = thing("a", spec={"n": 2})
    of = {"spec": {"n": 2}}
    assert written(patch({"metadata": {"resourceVersion": "5"}, **of}), a, b) is None
    stale = written(patch({"metadata": {"resourceVersion": "4"}, **of}), a, b)
    assert stale == "somebody wrote pods/default/a at resourceVersion 4, but it was at 5"
    other = Ask("DELETE", f"{PATH}/a", {"preconditions": {"uid": "another"}})
    assert written(other, a, None) == "somebody wrote pods/default/a with UID another, but its UID is uid-a"


def test_a_report_leaves_the_wish_alone_and_a_wish_the_report() -> None:
    a = thing("a", spec={"n": 1}, status={"n": 1})
    both = thing("a", spec={"n": 2}, status={"n": 2})
    report, wish = patch({"status": {"n": 2}}, "/status"), patch({"spec": {"n": 2}})
    assert written(report, a, both) == "somebody wrote the status of pods/default/a, but spec changed too"
    assert written(wish, a, both) == "somebody wrote pods/default/a, but its status changed too"


def test_what_a_merge_patch_says_is_then_so() -> None:
    a = thing("a", spec={"n": 1, "m": 1})
    wish = patch({"spec": {"n": None, "m": 2}})
    assert written(wish, a, thing("a", spec={"m": 2})) is None
    assert written(wish, a, thing("a", spec={"n": 1, "m": 2})) == (
        "somebody patched pods/default/a, but spec.n does not have the patch's value"
    )


def test_who_creates_replaces_nobody() -> None:
    a = thing("a")
    assert written(Ask("POST", PATH, a), a, a) == "somebody created pods/default/a, which already existed"
