"""The short way of a heartbeat: a Lease that is written back with nothing changed but its `renewTime`.

In a cluster at rest nearly every write is one. Everything else in such a body equals what is stored, and was
judged when it came; so it is compared instead of being read with care, defaulted, put in order and validated
again. Admission sees it like any other write. Whatever differs in anything else takes the long way.
"""

from __future__ import annotations

from fathom.kube.definitions.scalars import is_micro_time
from fathom.model.body import decode_json
from fathom.model.objects import Obj
from fathom.store.protocol import Entry

LEASES = "leases.coordination.k8s.io"
CHANGED = ("spec.renewTime",)


def renewal(entry: Entry, raw: bytes) -> Obj | None:
    """The Lease to store, or None where this is not just a renewal. It shares all it can with what is stored,
    which is never changed in place."""
    stored = entry.body.obj
    spec, meta = stored.get("spec"), stored["metadata"]
    if not spec or "renewTime" not in spec or "deletionTimestamp" in meta:
        return None
    # The same number of colons: no field is there twice, which would have to be told.
    if raw.count(b":") != entry.body.encoded.count(b":") + 1:
        return None
    try:
        given = decode_json(raw)
        time = given["spec"]["renewTime"]
    except (ValueError, TypeError, KeyError):  # The long way finds the words.
        return None
    if type(time) is not str or time == spec["renewTime"] or not is_micro_time(time):
        return None
    renewed = {**stored, "spec": {**spec, "renewTime": time}}
    whole = {**renewed, "metadata": {**meta, "resourceVersion": str(entry.revision)}}
    return renewed if whole == given else None
