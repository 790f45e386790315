"""Break-glass: whoever has rights by it alone writes nothing after its end, and what they write into roles
carries its UID."""

from __future__ import annotations

from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.times import SECOND_NS, duration_ns
from fathom.sim.checkers.override_effects import LATE_S
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.world import World

MARK = "fathom.dev/break-glass"
MARKED = frozenset(
    {
        f"roles.{RBAC_GROUP}",
        f"rolebindings.{RBAC_GROUP}",
        f"clusterroles.{RBAC_GROUP}",
        f"clusterrolebindings.{RBAC_GROUP}",
        "serviceaccounts",
    }
)


class BreakGlassEnds(Checker):
    """Of users who have no other rights to write than those of break-glass, and to write overrides."""

    name = "nothing is written by break-glass after its end"

    def __init__(self) -> None:
        self._uses: dict[str, tuple[str, float]] = {}  # Author -> the override's UID, and when it ends.

    def begin(self, world: World) -> None:
        self._processes = world.engine.processes

    def commit(self, change: Seen) -> Found:
        user = self._processes[change.by].user.name
        if change.resource == OVERRIDES:
            self._note(change, user)
            return None
        if user not in self._uses or change.ask is None:
            return None
        uid, ends_s = self._uses[user]
        if change.at_s > ends_s + LATE_S:
            return f"{user} wrote {change.path} {change.at_s - ends_s:.1f} s after break-glass ended"
        if change.resource in MARKED and change.new is not None and _mark(change.new) != uid:
            return f"{user} wrote {change.path} under break-glass, and it does not carry its UID"
        return None

    def _note(self, change: Seen, user: str) -> None:
        """By its own clock: from the first commit, for as long as the override says."""
        obj = change.new
        if obj is None or not lookup(obj, "spec", "changes", "breakGlassRole"):
            return
        if change.old is None:
            lasts_s = (duration_ns(str(lookup(obj, "spec", "expiresAfter"))) or 0) / SECOND_NS
            self._uses[user] = (uid_of(obj), change.at_s + lasts_s)
        elif is_deleting(obj) and not is_deleting(change.old):
            for author, (uid, ends_s) in self._uses.items():
                if uid == uid_of(obj):
                    self._uses[author] = (uid, min(ends_s, change.at_s))


def _mark(obj: Obj) -> object:
    return (metadata(obj).get("annotations") or {}).get(MARK)
