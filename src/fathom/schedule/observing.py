"""What a scheduler says about PolicyRollouts: that its caches have reached a step's activation. A gate waits
for it: a policy that is new beside nodes that are old makes decisions of mixed age."""

from __future__ import annotations

from fathom.model.objects import Obj, lookup, metadata


def observed(rollout: Obj, *, who: str, reached: int, now: str) -> Obj | None:
    """The patch of its status that says so; None where nothing new is to be said."""
    status = rollout.get("status") or {}
    activation = int(status.get("activationRevision") or 0)
    if not activation or reached < activation:
        return None
    listed = [one for one in status.get("observedBy") or () if isinstance(one, dict)]
    mine = next((one for one in listed if one.get("controller") == who), None)
    if mine is not None and int(mine.get("revision") or 0) >= activation:
        return None
    said = {
        "controller": who,
        "observedGeneration": int(metadata(rollout).get("generation") or 0),
        "revision": reached,
        "time": now,
    }
    others = [one for one in listed if one.get("controller") != who]
    revision = lookup(rollout, "metadata", "resourceVersion")
    return {"metadata": {"resourceVersion": revision}, "status": {"observedBy": [*others, said]}}
