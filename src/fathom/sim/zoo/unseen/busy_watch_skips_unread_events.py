"""A watch that is still sending when further events come goes on with those: it leaves out events before them
that it had not read yet."""

from __future__ import annotations

from fathom.api.watch_events import Watcher
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    Watcher.wake,
    (
        "        if waiter is not None and not waiter.done():\n"
        "            self.cursor = max(self.cursor, position)\n"
    ),
    (
        "        self.cursor = max(self.cursor, position)\n"
        "        if waiter is not None and not waiter.done():\n"
    ),
)
