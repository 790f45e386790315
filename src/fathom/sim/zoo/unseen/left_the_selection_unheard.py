"""A watch with a selector is not told of an object that no longer matches: the watcher keeps it for ever."""

from __future__ import annotations

from fathom.api.verbs.watch import WatchStream
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    WatchStream._seen,
    "        if was:\n",
    "        if was and logged.type == DELETED:\n",
)
