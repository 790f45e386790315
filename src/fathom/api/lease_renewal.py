"""The fast path of heartbeats: a Lease that is written back with only its `renewTime` changed.

In a cluster at rest nearly every write is one. Every other field of such a body equals the stored one, which
was validated when it was written; so the body is compared instead of being strictly decoded, defaulted,
ordered and validated again. Admission sees it like any other write. A body that differs in anything else
takes the normal path.
"""

from __future__ import annotations

from fathom.kube.definitions.scalars import is_micro_time
from fathom.model.body import decode_json
from fathom.model.objects import Obj
from fathom.store.protocol import Entry

CHANGED = ("spec.renewTime",)


def renewal(entry: Entry, raw: bytes) -> Obj | None:
    """The Lease to store, or None if this is more than a renewal. It shares all it can with the stored
    object, which is never changed in place."""
    stored = entry.body.obj
    spec, meta = stored.get("spec"), stored["metadata"]
    if not spec or "renewTime" not in spec or "deletionTimestamp" in meta:
        return None
    # The same number of colons: no field is duplicated, which the normal path would have to report.
    if raw.count(b":") != entry.body.encoded.count(b":") + 1:
        return None
    try:
        sent = decode_json(raw)
        time = sent["spec"]["renewTime"]
    except (ValueError, TypeError, KeyError):  # The normal path reports the error.
        return None
    if type(time) is not str or time == spec["renewTime"] or not is_micro_time(time):
        return None
    renewed = {**stored, "spec": {**spec, "renewTime": time}}
    whole = {**renewed, "metadata": {**meta, "resourceVersion": str(entry.revision)}}
    return renewed if whole == sent else None
