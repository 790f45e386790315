"""A page that leaves exactly one object calls the list complete: nobody asks for the last object."""

from __future__ import annotations

from fathom.api.verbs.list import _from_cache
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    _from_cache,
    "        if limit and len(entries) == limit and position + 1 < len(keys):\n",
    (
        "        if limit and len(entries) == limit and position + 2 >= len(keys):\n"
        "            break\n"
        "        if limit and len(entries) == limit:\n"
    ),
)
