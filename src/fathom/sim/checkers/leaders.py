"""Leader election: no write with an old fence epoch, and none by a process that does not hold its lease."""

from __future__ import annotations

from fathom.model.objects import Key, Obj, lookup
from fathom.model.resource_names import LEASES
from fathom.model.well_known import EPOCH_ANNOTATION, FENCE_HEADER
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

FENCES = "fences.fathom.dev"
EVENTS = frozenset({"events", "events.events.k8s.io"})
LASTS = ("spec", "leaseDurationSeconds")
OF_NODES = "kube-node-lease"


class WritesWithinTheTerm(Checker):
    """A write that names an epoch commits in that epoch; and an elected process writes only while it holds
    the lease, whether it names the epoch or not."""

    name = "no write behind a lost fence"

    def __init__(self) -> None:
        self.elected: dict[str, Key] = {}  # Process -> its lease. Filled by the code that starts the process.
        self._fences: dict[Key, Obj] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == FENCES:
            return self._check_fence(change)
        if change.resource == LEASES:
            return self._check_lease(change)
        fence_header = dict(change.headers).get(FENCE_HEADER, "")
        if fence_header:
            return self._check_epoch(change, fence_header)
        lease = self.elected.get(change.by)
        if lease is None or change.resource in EVENTS:
            return None
        return self._check_holder(change, lease)

    def _check_fence(self, change: Seen) -> Found:
        before = self._fences.get(change.key)
        now = change.new
        if now is None:
            return f"the fence of {'/'.join(change.key)} was removed"
        self._fences[change.key] = now
        if before is not None and int(now["epoch"]) != int(before["epoch"]) + 1:
            return f"the fence of {'/'.join(change.key)} went from epoch {before['epoch']} to {now['epoch']}"
        return None

    def _check_lease(self, change: Seen) -> Found:
        """The lease names its fence's epoch; its holder changes only together with the epoch."""
        if change.new is None or change.key not in self._fences:
            return None
        was, now = _holder(change.old), _holder(change.new)
        claimed = lookup(change.new, "metadata", "annotations", EPOCH_ANNOTATION)
        if (
            was == now
            and change.old
            and claimed != lookup(change.old, "metadata", "annotations", EPOCH_ANNOTATION)
        ):
            return f"{change.path} is still held by {now or 'nobody'}, but has epoch {claimed}"
        return None

    def _check_epoch(self, change: Seen, fence_header: str) -> Found:
        namespace, name, epoch = fence_header.split("/")
        fence = self._fences.get(Key(namespace, name))
        if fence is not None and int(epoch) == int(fence["epoch"]):
            return None
        now = f"at {fence['epoch']}, held by {fence['holder'] or 'nobody'}" if fence else "never taken"
        return self._finding(
            change, f"wrote in epoch {epoch} of {namespace}/{name}, which is {now}", fence_header
        )

    def _check_holder(self, change: Seen, lease: Key) -> Found:
        fence = self._fences.get(lease)
        if fence is not None and str(fence["holder"]).startswith(f"{change.by}_"):
            return None
        holder = (fence["holder"] or "nobody") if fence else "nobody"
        return self._finding(change, f"wrote while {'/'.join(lease)} is held by {holder}", "/".join(lease))

    def _finding(self, change: Seen, action: str, lease: str) -> Finding:
        namespace, name = lease.split("/")[:2]
        return Finding(f"{change.by} {action}", (change.path, f"{LEASES}/{namespace}/{name}"))


class LeasesAreHeldOut(Checker):
    """A process takes over another's lease only after it has seen it unchanged for the lease's duration, by
    its own clock. (A restarted process may take up its own lease; a person may take any.)"""

    name = "a lease is taken over only after it expires"
    resources = frozenset({LEASES})

    def __init__(self) -> None:
        self._since_s: dict[Key, float] = {}  # When each was last written.

    def commit(self, change: Seen) -> Found:
        since_s = self._since_s.get(change.key, change.at_s)
        self._since_s[change.key] = change.at_s
        was, now = _holder(change.old), _holder(change.new)
        if not was or not now or was.partition("_")[0] == now.partition("_")[0] or change.by == DRIVER:
            return None
        unchanged_s, lasts_s = change.at_s - since_s, float(lookup(change.old, *LASTS) or 0)
        if unchanged_s >= lasts_s:
            return None
        return f"{now} took the lease from {was}, which had renewed it {unchanged_s:.1f} s before"


class EachLifeHasItsEpoch(Checker):
    """Two lives of a process are two leaders, also where they have one name: what the first one has sent may
    still arrive, and the second one has forgotten it. So the second one leads in an epoch of its own. (The
    lease of a node is no election: it says that the node is alive.)"""

    name = "each life of a process leads in an epoch of its own"
    resources = frozenset({LEASES})

    def __init__(self) -> None:
        self._lives: dict[tuple[Key, str], tuple[str, int]] = {}  # Lease, epoch -> process and incarnation.

    def commit(self, change: Seen) -> Found:
        epoch = lookup(change.new, "metadata", "annotations", EPOCH_ANNOTATION) if change.new else None
        holder = _holder(change.new)
        if epoch is None or holder.partition("_")[0] != change.by or change.key.namespace == OF_NODES:
            return None
        name, incarnation = self._lives.setdefault((change.key, epoch), (change.by, change.incarnation))
        if (name, incarnation) == (change.by, change.incarnation):
            return None
        return f"{change.by} holds {change.path} in epoch {epoch}, in which an earlier life of {name} led"


def _holder(lease: Obj | None) -> str:
    return str(lookup(lease or {}, "spec", "holderIdentity") or "")
