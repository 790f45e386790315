"""What every cluster starts with, made once a process: a run then begins with a server that finds it there.

Namespaces, roles and their bindings are written by the first server of a new store: some fifty requests that
are the same in every run. Here they are written in a world of their own, of one seed, and their bytes put
into the store of every other world as its first commit, at revision 2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from fathom.api.watch_cache import REGISTRY
from fathom.model.body import Body
from fathom.store.protocol import Put

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine

Genesis = tuple[tuple[str, bytes], ...]  # Key and encoded body.

SETTLED_S = 5.0  # What housekeeping adds to a new namespace is there by then.


def puts(genesis: Genesis) -> list[Put]:
    """Bodies of each world's own: whoever would change one changes no other world."""
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
    found = tuple(
        (entry.key, entry.body.encoded) for entry in engine.store.entries() if entry.key.startswith(REGISTRY)
    )
    engine.end()
    return found
