"""46. A timeline joins a decision to the newest write of an object with the name of its cause, not to the
write of the UID and revision: a pod's namesake seems to have woken its controller."""

from __future__ import annotations

from fathom.explain.timeline.writes import Writes
from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision
from fathom.model.times import moment_ns
from fathom.sim.zoo import put_back

SCENARIOS = ("names-are-used-again",)
BREAKS = "timelines from records have no false edge, and few missing ones"


def by_name(self: Writes, decision: Decision) -> AuditEntry | None:
    cause = decision.cause
    named = [
        entry
        for entry in self._by_id.values()
        if (entry.resource, entry.namespace, entry.name) == (cause.resource, cause.namespace, cause.name)
        and (moment_ns(entry.time) or 0) <= decision.time_ns
    ]
    return max(named, key=lambda entry: entry.revision, default=None)


put_back(Writes, "waking", by_name)
