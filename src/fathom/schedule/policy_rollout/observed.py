"""What a scheduler says about PolicyRollouts: that its caches have reached a step's activation. A gate waits
for it: a policy that is new beside nodes that are old makes decisions of mixed age."""

from __future__ import annotations

import msgspec

from fathom.model.objects import Obj, lookup, metadata


class LeaseTerm(msgspec.Struct, frozen=True):
    """In which a scheduler observes, where it has a lease."""

    lease: str = ""  # namespace/name
    epoch: int = 0


NO_LEASE = LeaseTerm()


def observed(rollout: Obj, *, who: str, reached: int, now: str, term: LeaseTerm = NO_LEASE) -> Obj | None:
    """The patch of its status that says so; None where nothing new is to be said. Who begins to observe says
    how far it is even if that is not far enough: what others have said, or it itself in an earlier term, is
    no word of its own caches."""
    status = rollout.get("status") or {}
    activation = int(status.get("activationRevision") or 0)
    if not activation:
        return None
    listed = [one for one in status.get("observedBy") or () if isinstance(one, dict)]
    mine = next((one for one in listed if _is_mine(one, who, term)), None)
    if mine is not None and (reached < activation or int(mine.get("revision") or 0) >= activation):
        return None
    if not listed and reached < activation:
        return None
    said = {
        "controller": who,
        "observedGeneration": int(metadata(rollout).get("generation") or 0),
        "revision": reached,
        "time": now,
        **({"lease": term.lease, "epoch": term.epoch} if term.lease else {}),
    }
    others = [one for one in listed if not _is_replaced(one, who, term)]
    revision = lookup(rollout, "metadata", "resourceVersion")
    return {"metadata": {"resourceVersion": revision}, "status": {"observedBy": [*others, said]}}


def _is_mine(entry: Obj, who: str, term: LeaseTerm) -> bool:
    return entry.get("controller") == who and int(entry.get("epoch") or 0) == term.epoch


def _is_replaced(entry: Obj, who: str, term: LeaseTerm) -> bool:
    """Of those who share a lease one works at a time: who has it speaks for those before it."""
    return entry.get("controller") == who or bool(term.lease and entry.get("lease") == term.lease)
