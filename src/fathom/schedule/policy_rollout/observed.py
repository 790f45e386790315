"""A scheduler's report in PolicyRollouts: its caches have reached the activation of a step, or of the end.

A gate waits for it: a new policy with an old view of the nodes makes decisions of mixed age. After a rollback
the report is the scheduler's acknowledgement: from here on it decides by the earlier policy.
"""

from __future__ import annotations

import msgspec

from fathom.model.objects import Obj, lookup, metadata


class LeaseTerm(msgspec.Struct, frozen=True):
    """The lease term in which a scheduler observes, if it has a lease."""

    lease: str = ""  # namespace/name
    epoch: int = 0


NO_LEASE = LeaseTerm()


def observed(rollout: Obj, *, who: str, reached: int, now: str, term: LeaseTerm = NO_LEASE) -> Obj | None:
    """The status patch with the report; None if there is nothing new. A scheduler that begins to observe
    reports the revision it has reached even if that is too old: an entry of another scheduler, or of its own
    earlier term, says nothing about its caches."""
    status = rollout.get("status") or {}
    activation = int(status.get("activationRevision") or 0)
    if not activation:
        return None
    listed = [entry for entry in status.get("observedBy") or () if isinstance(entry, dict)]
    mine = next((entry for entry in listed if _is_mine(entry, who, term)), None)
    if mine is not None and (reached < activation or int(mine.get("revision") or 0) >= activation):
        return None
    if not listed and reached < activation:
        return None
    report = {
        "controller": who,
        "observedGeneration": int(metadata(rollout).get("generation") or 0),
        "revision": reached,
        "time": now,
        **({"lease": term.lease, "epoch": term.epoch} if term.lease else {}),
    }
    others = [entry for entry in listed if not _is_replaced(entry, who, term)]
    revision = lookup(rollout, "metadata", "resourceVersion")
    return {"metadata": {"resourceVersion": revision}, "status": {"observedBy": [*others, report]}}


def _is_mine(entry: Obj, who: str, term: LeaseTerm) -> bool:
    return entry.get("controller") == who and int(entry.get("epoch") or 0) == term.epoch


def _is_replaced(entry: Obj, who: str, term: LeaseTerm) -> bool:
    """Schedulers that share a lease work one at a time: the holder's entry replaces its predecessors'."""
    return entry.get("controller") == who or bool(term.lease and entry.get("lease") == term.lease)
