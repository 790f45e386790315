"""An eviction forgets after its checks which pod was meant: a pod that takes the name meanwhile is deleted
instead."""

from __future__ import annotations

from fathom.api.subresources.eviction import evict
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    evict,
    "    written = await remove(core, call, options)",
    (
        "    options = msgspec.structs.replace(options, preconditions=None)\n"
        "    written = await remove(core, call, options)"
    ),
)
