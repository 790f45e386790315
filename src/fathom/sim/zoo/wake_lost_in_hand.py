"""25. A key that is added while a worker handles it is not handled again: the change that came meanwhile is
lost."""

from __future__ import annotations

from typing import Any

from fathom.control.queue import WorkQueue
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-handed-over", "replicas")
BREAKS = "statuses match the objects when settled"

right = WorkQueue.add


def unless_in_hand(self: Any, key: Any, *rest: Any, **options: Any) -> bool:
    return True if key in self._in_hand else right(self, key, *rest, **options)


put_back(WorkQueue, "add", unless_in_hand)
