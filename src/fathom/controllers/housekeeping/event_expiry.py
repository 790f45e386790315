"""Deletes Events an hour after they were last seen: they are news, not state."""

from __future__ import annotations

from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.view import View

KEEP_S = 3600  # kube-apiserver's --event-ttl.
EXPIRE_S = 60.0


def last_seen(event: Obj) -> str:
    """RFC 3339, so that comparing text compares times (to the second, which will do). Never before the server
    stored it: a client may report past events, or have a wrong clock."""
    series = lookup(event, "series", "lastObservedTime")
    time = series or event.get("lastTimestamp") or event.get("eventTime")
    return max(str(time or ""), str(metadata(event).get("creationTimestamp") or ""))


class EventController:
    def __init__(self, *, writer: HousekeepingWriter, view: View) -> None:
        self._writer = writer
        self._view = view

    async def expire(self, *, before: str) -> None:
        """Deletes Events last seen before then."""
        old = [seen.obj for seen in self._view.list("events") if last_seen(seen.obj) < before]
        for event in old:
            namespace, name = key_of(event)
            with ignored(404, 409):  # Deleted, or seen again meanwhile.
                await self._writer.expire(f"/api/v1/namespaces/{namespace}/events/{name}", uid=uid_of(event))
