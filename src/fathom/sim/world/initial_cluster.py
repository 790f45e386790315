"""The objects that every cluster starts with, made once per interpreter and put into each world's store.

The first API server of a new store writes namespaces, roles and their bindings: some fifty requests that are
the same in every run. This module writes them in a separate world, with one seed, and puts their bytes into
the store of every other world as its first commit, at revision 2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from fathom.api.resource_cache import REGISTRY
from fathom.model.body import Body
from fathom.store.protocol import Put

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine

Genesis = tuple[tuple[str, bytes], ...]  # Key and encoded body.

SETTLED_S = 5.0  # By then housekeeping has added its objects to the new namespaces.


def puts(genesis: Genesis) -> list[Put]:
    """New bodies for each world: a change in place cannot reach another world."""
    return [Put(key, Body(encoded=encoded)) for key, encoded in genesis]


@lru_cache(maxsize=1)
def genesis_of(empty: type[Engine]) -> Genesis:
    from fathom.sim.world.signing_key import world_key  # noqa: PLC0415 - a key is made when a world is

    engine = empty("genesis", signing=world_key(), genesis=())
    server = engine.add_server("api-1")
    server.start()
    engine.run(until_s=SETTLED_S)
    if not server.state.ready:
        engine.run(until_s=10 * SETTLED_S)
    genesis = tuple(
        (entry.key, entry.body.encoded) for entry in engine.store.entries() if entry.key.startswith(REGISTRY)
    )
    engine.end()
    return genesis
