"""Nodes whose last binding was refused: each is skipped until the caches have caught up."""

from __future__ import annotations

from fathom.cache.snapshot import Snapshot


class RefusedNodes:
    def __init__(self) -> None:
        # Node -> (revision to reach, time of the refusal). Removed only by a view that is newer than both.
        self._refused: dict[str, tuple[int, float]] = {}

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._refused)

    def add(self, node: str, revision: int, *, now_s: float) -> None:
        self._refused[node] = (revision, now_s)

    def settle(self, snapshot: Snapshot) -> list[str]:
        """Remove and return the nodes for which both caches have been updated since the refusal, and have
        reached its revision."""
        if not self._refused:
            return []
        reached = min(snapshot.revision("Pod"), snapshot.revision("Node"))
        heard_s = snapshot.taken_s - max(snapshot.age("Pod"), snapshot.age("Node"))
        over = [
            node
            for node, (revision, refused_s) in self._refused.items()
            if heard_s > refused_s and reached >= revision
        ]
        for node in over:
            del self._refused[node]
        return over
