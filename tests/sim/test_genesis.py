"""A world begins where a new cluster's first server would have brought it."""

from __future__ import annotations

from tests.sim.small import passes, story

from fathom.api.auth.bootstrap import bootstrap_objects
from fathom.model.objects import Key, metadata
from fathom.sim.world.engine import Engine
from fathom.sim.world.initial_cluster import genesis_of, puts
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.world import World


def test_everything_a_cluster_starts_with_is_there_and_the_server_adds_nothing() -> None:
    async def tell(world: World) -> None:
        names = {entry.key.rpartition("/")[2] for entry in world.engine.store.entries()}
        assert {metadata(obj)["name"] for obj in bootstrap_objects()} <= names
        assert world.get("serviceaccounts", Key("default", "default")) is not None
        await world.sleep(30)
        changed = [entry.key for entry in world.engine.store.entries() if entry.revision > 2]
        assert [key for key in changed if key.startswith("/registry/")] == []

    passes(story(tell))


def test_a_store_can_begin_empty_and_its_server_then_brings_it_there() -> None:
    engine = Engine("5", signing=world_key(), genesis=())
    engine.add_server("api-1").start()
    engine.run(until_s=10)
    made = [entry.key for entry in engine.store.entries() if entry.key.startswith("/registry/")]
    engine.end()
    assert made == [key for key, _ in genesis_of(Engine)]


def test_no_two_worlds_share_an_object() -> None:
    once, again = puts(genesis_of(Engine)), puts(genesis_of(Engine))
    assert once == again
    assert not {id(put.body) for put in once} & {id(put.body) for put in again}
