"""When the read that should settle the unknown outcome of a write fails, the object counts as absent."""

from __future__ import annotations

from fathom.client.settle import settled
from fathom.sim.zoo import rewrite

ROOM = "client"

rewrite(
    settled,
    ("            await asyncio.sleep(READ_AGAIN.jittered_s(attempt, rng))\n            continue\n"),
    "            current = None\n",
)
