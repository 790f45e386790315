"""What agents say about containers: no restart is unsaid, and nothing is removed while it runs."""

from __future__ import annotations

from fathom.model.objects import Obj, lookup, uid_of
from fathom.sim.invariants import Checker, Found, Seen


class RunsAreTold(Checker):
    """How often a container was started only grows; and the agent that lets a pod go has said before that
    nothing of it runs. (Others may remove one at once: they know that its node is gone.)"""

    name = "agents tell what runs"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        if change.old is None:
            return None
        if change.new is None:
            running = [name for name, (_, runs) in _told(change.old).items() if runs]
            if running and change.by == lookup(change.old, "spec", "nodeName"):
                return f"{change.by} let it go, and said that {', '.join(running)} runs"
            return None
        if uid_of(change.old) != uid_of(change.new):
            return None
        before, after = _told(change.old), _told(change.new)
        for name, (restarts, _) in after.items():
            if restarts < before.get(name, (0, False))[0]:
                return f"{name} was restarted {before[name][0]} times, and now {restarts}"
        return None


def _told(pod: Obj) -> dict[str, tuple[int, bool]]:
    """By container: how often it was restarted, whether it runs."""
    return {
        str(one.get("name")): (int(one.get("restartCount") or 0), bool(lookup(one, "state", "running")))
        for one in lookup(pod, "status", "containerStatuses") or ()
    }
