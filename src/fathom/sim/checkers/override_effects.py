"""Which objects are effects of an override, by its UID, as an object itself says it."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.api.ledger.accounts import TENANT_BOOKS
from fathom.kinds.reservation import HOLDING, RESERVATIONS
from fathom.model.conditions import EVICTED_FOR
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.pod_phase import TERMINAL_PHASES

ROUTES = "trafficroutes.fathom.dev"
ACCOUNT, USED, MADE_BY = "fathom.dev/account", "fathom.dev/overrides", "fathom.dev/override"
WITH_EFFECTS = frozenset({"pods", RESERVATIONS, ROUTES, TENANT_BOOKS})
# How late a write may follow the end of an override: times are recorded in whole seconds, each API server
# judges with its own clock, and a write takes a moment from its check to the store.
LATE_S = 2.5


def effects_on(resource: str, obj: Obj | None) -> Iterable[str]:
    """The UIDs of overrides that the object is an effect of, while it lasts."""
    if obj is None:
        return ()
    if resource == TENANT_BOOKS:
        return tuple(obj.get("overrides") or ())
    notes = metadata(obj).get("annotations") or {}
    if resource == ROUTES:
        return _named(notes.get(MADE_BY))
    phase = lookup(obj, "status", "phase") or ""
    over = phase in TERMINAL_PHASES if resource == "pods" else phase not in HOLDING
    parts = str(notes.get(ACCOUNT) or "").split("/")
    return () if over else (*parts[3:4], *_named(notes.get(USED)))


def evicted_for(pod: Obj | None) -> str:
    """The UID of the override that the pod is evicted for; '': of none."""
    for condition in lookup(pod, "status", "conditions") or ():
        if condition.get("type") == EVICTED_FOR:  # Its reason is NAMESPACE/NAME@UID.
            return str(condition.get("reason") or "").partition("@")[2]
    return ""


def _named(marks: object) -> tuple[str, ...]:
    entries = str(marks or "").split(",")
    return tuple(uid for entry in entries if (uid := entry.partition("@")[2]))
