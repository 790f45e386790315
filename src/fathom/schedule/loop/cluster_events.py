"""Cluster events since the last round: the next round tries the pods that wait for them."""

from __future__ import annotations

import asyncio

from fathom.model.cause import DELETED
from fathom.model.objects import Obj, key_of, metadata
from fathom.schedule.decide import rules
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.queue import ClusterEvent
from fathom.schedule.loop.watched_kinds import KINDS

RESOURCES = {kind.name: kind.resource.name for kind in KINDS}


def about_pod(name: str, detail: str, pod: PodView) -> ClusterEvent:
    return ClusterEvent(name, detail, "pods", pod.key, pod.revision)


class ClusterEvents:
    def __init__(self) -> None:
        self._happened: dict[str, ClusterEvent] = {}  # By event name: one of each is enough for the record.
        self._freed: dict[str, None] = {}  # Nodes that pods have left; used to wake pods on POD_GONE.
        self.moved = asyncio.Event()  # Set whenever the loop has work; only the loop clears it.

    def __bool__(self) -> bool:
        return bool(self._happened)

    def record(self, name: str, kind: str, obj: Obj, detail: str = "", *, gone: bool = False) -> None:
        revision = int(metadata(obj).get("resourceVersion") or 0)
        detail = detail or (DELETED if gone else "")
        resource = RESOURCES.get(kind, kind)
        self._happened[name] = ClusterEvent(name, detail, resource, key_of(obj), revision, gone)

    def record_freed_room(self, node: str, detail: str, pod: PodView | None = None) -> None:
        """`pod`: the one that left the room, or does not need it, if it is known."""
        self.record_freed_node(node)
        event = ClusterEvent(rules.POD_GONE, detail)
        self._happened[rules.POD_GONE] = event if pod is None else about_pod(rules.POD_GONE, detail, pod)
        self.moved.set()

    def record_freed_node(self, node: str) -> None:
        self._freed[node] = None

    def put(self, event: ClusterEvent) -> None:
        self._happened[event.name] = event

    def add(self, event: ClusterEvent) -> None:
        """Add the event, unless one of its name is there already."""
        self._happened.setdefault(event.name, event)

    def take(self) -> tuple[list[ClusterEvent], dict[str, None]]:
        """Remove and return the events, and the nodes that pods have left."""
        happened, self._happened = self._happened, {}
        freed, self._freed = self._freed, {}
        return list(happened.values()), freed

    def ask_again(self, event: ClusterEvent, freed: dict[str, None]) -> None:
        self.add(event)
        self._freed.update(freed)
        self.moved.set()
