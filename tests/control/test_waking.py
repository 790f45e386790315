"""Which keys a change concerns, and that none is forgotten when the line is full."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.greetings import (
    GREETINGS,
    MAPS,
    cards,
    define,
    example,
    greet,
    hosted,
    hosting,
    is_ready,
)
from tests.control.worlds import told

from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.ownership import owned
from fathom.control.process import load_controller, watched
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import (
    CONFIG_MAP,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    OwnedBy,
    Primary,
    Related,
    WatchedKind,
)
from fathom.model.objects import Key, Obj, labels_of, metadata
from fathom.seams.process import NoEntry
from fathom.sim.world.world import World


def nothing() -> Snapshot:
    raise AssertionError("nobody should look others up for this")


def child(owner: Obj) -> Obj:
    return owned({"metadata": {"namespace": "ns", "name": "web-0"}}, owner)


def replica_set(**fields: Any) -> Obj:
    meta = {"namespace": "ns", "name": "web", "uid": "u"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, **fields}


def test_a_child_concerns_the_one_that_controls_it() -> None:
    pods = OwnedBy(POD)
    assert list(pods.keys(child(replica_set()), nothing, REPLICA_SET)) == [Key("ns", "web")]
    assert list(pods.keys(child(replica_set(kind="Job")), nothing, REPLICA_SET)) == []
    assert list(pods.keys(child(replica_set(apiVersion="other/v1")), nothing, REPLICA_SET)) == []
    assert list(pods.keys({"metadata": {"name": "free"}}, nothing, REPLICA_SET)) == []


def test_another_version_of_the_owners_kind_is_the_same_kind() -> None:
    old = child(replica_set(apiVersion="apps/v1beta2"))
    assert list(OwnedBy(POD).keys(old, nothing, REPLICA_SET)) == [Key("ns", "web")]


def test_an_owner_outside_of_namespaces_is_known_by_its_name() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u"}}
    assert list(OwnedBy(POD).keys(child(node), nothing, NODE)) == [Key("", "n1")]


class Labelled:
    """Every namespace that wants it gets a copy of every source. A Namespace concerns all sources."""

    name = "labelled"
    watches = (
        Primary(CONFIG_MAP, conditions=False),
        Related(NAMESPACE, lambda obj, view: sources(view()) if "copy" in labels_of(obj) else ()),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.looked: list[Key] = []

    async def reconcile(self, key: Key) -> ReconcileResult:
        self.looked.append(key)
        return ReconcileResult.never()


def sources(view: Snapshot) -> list[Key]:
    return [
        Key(metadata(one)["namespace"], metadata(one)["name"])
        for one in view.list("ConfigMap")
        if "source" in labels_of(one)
    ]


def test_what_is_related_wakes_whom_it_concerns() -> None:
    async def story(world: World) -> None:
        for name in ("one", "two"):
            await world.apply(MAPS, {"metadata": {"name": name, "labels": {"source": "yes"}}})
        await world.apply(MAPS, {"metadata": {"name": "other"}})
        world.process("kit", hosting(Labelled))
        await world.sleep(3)
        controller = hosted(world).running.loops[0]._controller
        assert isinstance(controller, Labelled)
        controller.looked.clear()
        await world.apply(NAMESPACE.resource, {"metadata": {"name": "plain"}})
        await world.sleep(2)
        assert [key for key in controller.looked if key.namespace == "default"] == []
        await world.apply(NAMESPACE.resource, {"metadata": {"name": "x", "labels": {"copy": "yes"}}})
        await world.sleep(2)
        looked = {key for key in controller.looked if key.namespace == "default"}
        assert looked == {Key("default", "one"), Key("default", "two")}

    told(story)


def test_when_the_line_was_full_everything_is_looked_at_again() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(workers=1))
        await world.sleep(2)
        hosted(world).running.loops[0].queue._keys_max = 3
        names = [f"g{number}" for number in range(20)]
        async with world.held("configmaps", process="kit"):  # The worker is busy while they all come.
            for name in names:
                await world.apply(GREETINGS, {**example_greeting(name)})
        await world.until(lambda: all(is_ready(world, name) for name in names), within_s=60, what="all are")
        assert len(cards(world)) == 20
        assert "the queue was full" in {one.cause.detail for one in hosted(world).journal.decisions}

    told(story)


def example_greeting(name: str) -> Obj:
    from tests.control.greetings import greeting

    return greeting(name)


def test_two_controllers_share_one_cache_of_a_kind() -> None:
    class Other:
        name = "other"
        watches = (Primary(CONFIG_MAP, indexes={"mine": lambda obj: ["x"]}),)

    class Clash:
        name = "clash"
        watches = (Primary(WatchedKind("ConfigMap", GREETINGS)),)

    found = watched([example().Greetings, Other])  # type: ignore[list-item]  # only declarations matter here
    assert [(kind.name, sorted(indexes)) for kind, indexes in found] == [
        ("Greeting", ["owner"]),
        ("ConfigMap", ["mine", "owner"]),
    ]
    with pytest.raises(TypeError, match="two kinds are named ConfigMap"):
        watched([example().Greetings, Clash])  # type: ignore[list-item]  # only declarations matter here


def test_two_controllers_in_one_process_do_not_hold_each_other_up() -> None:
    async def story(world: World) -> None:
        await define(world)
        world.process("kit", hosting(example().Greetings, Labelled))
        await greet(world, "hi", copies=2)
        await world.until(lambda: is_ready(world, "hi"), within_s=20, what="it is ready")
        assert {one.controller for one in hosted(world).passes} == {"greetings", "labelled"}

    told(story)


@pytest.mark.parametrize("name", ["nowhere:X", "fathom.control.process:Nobody", "no colon", ""])
def test_a_controller_that_is_not_there_is_said(name: str) -> None:
    with pytest.raises(NoEntry, match="there is no controller"):
        load_controller(name)
