"""An eviction forgets after its checks which pod was meant: a pod that takes the name meanwhile is deleted
instead."""

from __future__ import annotations

from fathom.api.subresources.eviction import _mark_and_remove
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    _mark_and_remove,
    "    return await remove(core, call, expected, check=check)",
    (
        "    expected = msgspec.structs.replace(expected, preconditions=None)\n"
        "    return await remove(core, call, expected, check=check)"
    ),
)
