"""Logs a summary of the cluster every few seconds while it changes, for the status line of `fathom up`.

Writes nothing to the API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import NAMESPACE, NODE, POD, Primary, Related, Watch
from fathom.model.conditions import is_true
from fathom.model.declared import Reads, Timer
from fathom.model.objects import Key, Obj, lookup
from fathom.model.pod_phase import TERMINAL_PHASES

EVERY_S = 1.0
# An object that always exists: the key under which the summary is reconciled.
ANCHOR = Key("", "default")


def summary(nodes: Iterable[Obj], pods: Iterable[Obj]) -> dict[str, int]:
    """Pods that have ended are not counted."""
    ready = [is_true(node, "Ready") for node in nodes]
    phases = Counter(str(lookup(pod, "status", "phase")) for pod in pods)
    alive = sum(count for phase, count in phases.items() if phase not in TERMINAL_PHASES)
    return {
        "nodes": len(ready),
        "ready": sum(ready),
        "pods": alive,
        "running": phases["Running"],
        "pending": phases["Pending"],
    }


class ClusterSummary:
    name = "summary"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(NAMESPACE, conditions=False),
        Related(NODE),
        Related(POD),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Namespace", ()),
        Reads("Node", ("status.conditions",)),
        Reads("Pod", ("status.phase",)),
    )
    timers: ClassVar[tuple[Timer, ...]] = (Timer("summary", EVERY_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._seen: tuple[int, int] = (0, 0)
        self._logged: dict[str, int] = {}

    async def reconcile(self, key: Key) -> ReconcileResult:
        if key != ANCHOR:
            return ReconcileResult.never()
        view = self._kit.snapshot()
        seen = (view.revision("Node"), view.revision("Pod"))
        if seen != self._seen:
            self._seen = seen
            self._log_if_changed(summary(view.list("Node"), view.list("Pod")))
        return ReconcileResult.in_s(EVERY_S, "the next cluster summary")

    def _log_if_changed(self, counts: dict[str, int]) -> None:
        if counts != self._logged:
            self._logged = counts
            self._kit.log.info("status", status=counts)
