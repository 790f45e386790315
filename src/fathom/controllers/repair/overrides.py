"""The overrides that concern an object which repair looks at, read from its view."""

from __future__ import annotations

from fathom.cache.snapshot import Snapshot
from fathom.controllers.override_pauses import WorkloadPause, in_scope_of, paused_at
from fathom.kinds.override_scope import WorkloadName
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup

# A pod that went before we ever saw it causes no event: everything is looked at again this often.
SCAN_S = 15.0
PAUSED = "repair is paused by an override"


def overrides_for(view: Snapshot, namespace: str) -> list[Obj]:
    """Those of its namespace, and those of infrastructure."""
    namespaces = dict.fromkeys((namespace, SYSTEM_NAMESPACE))
    return [override for each in namespaces for override in view.list("SchedulerOverride", each)]


def repair_pause(
    view: Snapshot, obj: Obj, names: tuple[WorkloadName, ...], *, now_ns: int
) -> WorkloadPause | None:
    """The override that keeps repair from acting on an object that may be on a node."""
    where = str(lookup(obj, "spec", "nodeName") or "")
    node = view.get("Node", Key("", where)) if where else None
    return paused_at(
        overrides_for(view, key_of(obj).namespace),
        "pause_repair",
        namespace=key_of(obj).namespace,
        names=names,
        node=where,
        node_labels={} if node is None else labels_of(node),
        in_scope=in_scope_of(view, lambda: (obj,)),
        now_ns=now_ns,
    )


def again_s(pause: WorkloadPause | None, now_ns: int, otherwise: float | None) -> float | None:
    """A pause may be ended early: it is looked at again with every scan."""
    return otherwise if pause is None else min(SCAN_S, max(0.0, (pause.until_ns - now_ns) / 1e9) + 0.1)
