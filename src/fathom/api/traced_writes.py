"""What a span needs to know of a committed write, besides its audit entry. Only where traces are on."""

from __future__ import annotations

from fathom.api.core import Call
from fathom.api.watch_cache import WatchCache
from fathom.model.audit import AuditEntry
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, metadata
from fathom.model.traced import TracedWrite


def traced_write(call: Call, entry: AuditEntry, cache: WatchCache, *, now_ns: int) -> TracedWrite:
    """The cache has the object: a write is answered only then."""
    seen = cache.get(entry.resource, Key(entry.namespace, entry.name))
    obj = seen.obj if seen is not None and seen.revision == entry.revision else None
    is_new = entry.verb == "create" and not entry.subresource
    return TracedWrite(
        entry=entry,
        began_ns=call.caller.began_ns or now_ns,
        ended_ns=now_ns,
        traceparent=call.request.headers.get("traceparent", ""),
        owner=_controller_uid(obj) if is_new and obj is not None else "",
        ready=is_true(obj, "Ready") if obj is not None and entry.resource == "pods" else None,
    )


def _controller_uid(obj: Obj) -> str:
    references = metadata(obj).get("ownerReferences") or ()
    return next((str(reference["uid"]) for reference in references if reference.get("controller")), "")
