"""The store does not check that a key is absent: a create replaces the object of that name."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.store.memory import MemoryStore

ROOM = "store"

rewrite(
    MemoryStore.commit_now,
    "if (entry.revision if entry else 0) != expect.revision:",
    "if expect.revision and (entry.revision if entry else 0) != expect.revision:",
)
