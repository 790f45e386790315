"""Overrides that raise the priority of a workload's pods in the scheduling queue, while they are in force.

Of several, the largest priority counts. Pods that preempt do so by their own priority: an override lets
nobody evict more than before.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.kinds.scheduler_override import SchedulerOverride, override_active
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.resolve import concerns, override_name, raised_by, scope_of
from fathom.schedule.decide.rows import Rows


class RaisedPriority(msgspec.Struct, frozen=True):
    priority: int
    override: str  # 'NAMESPACE/NAME'


class RaisedPriorities:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.overrides: tuple[SchedulerOverride, ...] = ()  # Those that raise a priority, in force or not.
        self._in_scope: dict[str, bool] = {}  # By override: where pods are changes without an event for us.

    def put(self, overrides: Iterable[SchedulerOverride]) -> None:
        """All overrides, in a fixed order."""
        raising = (each for each in overrides if each.spec.changes.raise_priority is not None)
        self.overrides = tuple(raising)
        self._in_scope.clear()

    def look_again(self, *, now_ns: int) -> bool:
        """Whether any override raises priorities now. Scopes are looked at again."""
        self._in_scope.clear()
        return any(override_active(override, now_ns) for override in self.overrides)

    def of(self, pod: PodView, *, now_ns: int) -> RaisedPriority | None:
        """None for most pods: no override raises them above their own priority."""
        highest: RaisedPriority | None = None
        for override in self.overrides:
            priority = raised_by(override, pod)
            if priority is None or priority <= (pod.priority if highest is None else highest.priority):
                continue
            if override_active(override, now_ns) and self._includes(override):
                highest = RaisedPriority(priority, override_name(override))
        return highest

    def _includes(self, override: SchedulerOverride) -> bool:
        """Whether the target is in the override's scope: `override_scope.workload_in_scope`, on our table."""
        pairs, name = scope_of(override), override_name(override)
        if not pairs:
            return True
        if name not in self._in_scope:
            rows = Rows(self._table)
            inside = rows.having(pairs)
            own = [counted.row for counted in self._table.placed.values() if concerns(override, counted.view)]
            self._in_scope[name] = bool(inside[own].any() if own else inside.any())
        return self._in_scope[name]
