"""The objects that a plan for one override is made from, as the controller collected them. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fathom.control.ownership import controller_of
from fathom.kinds.override_status import ComponentLease, is_marked
from fathom.kinds.scheduler_override import (
    USED_OVERRIDES,
    Effect,
    SchedulerOverride,
    cordons,
    targets_pod,
)
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, key_of, labels_of, metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.tenancy import ACCOUNT
from fathom.model.times import moment_ns


class OverrideFacts(msgspec.Struct, frozen=True):
    nodes: tuple[Obj, ...] = ()
    workloads: tuple[Obj, ...] = ()  # Those that the target names.
    in_scope: bool = True  # Whether these are where the override applies.
    autoscalers: tuple[Obj, ...] = ()  # Of its namespace.
    classes: tuple[Obj, ...] = ()
    proposals: tuple[Obj, ...] = ()  # Of its namespace.
    services: tuple[Obj, ...] = ()  # Of its namespace.
    routes: tuple[Obj, ...] = ()  # Of its namespace.
    role_exists: bool = True  # The ClusterRole of break-glass.
    residents: tuple[Obj, ...] = ()  # Pods on nodes that it drains.
    placements: tuple[Obj, ...] = ()  # Pods that are charged to it, or marked as placed by it.
    reservations: tuple[Obj, ...] = ()  # That hold room by it, or are recorded.
    siblings: Mapping[str, tuple[Obj, ...]] = {}  # UID of a controller -> its pods.
    made_under_it: tuple[Effect, ...] = ()  # Roles, bindings and accounts made under break-glass.
    refused: Mapping[str, str] = {}  # UID of a pod -> why the server refused its eviction or new account.
    leases: tuple[ComponentLease, ...] = ()
    epoch: int = 0
    cache_revision: int = 0  # Of the cache of overrides.
    seen_revision: int = 0  # All kinds in which effects are looked for have reached this revision.


def account_parts(obj: Obj) -> list[str]:
    """Tenant, zone and class that an object is charged to, and the UID of the override if one lent it."""
    text = (metadata(obj).get("annotations") or {}).get(ACCOUNT)
    return text.split("/") if isinstance(text, str) else []


def charged_override(obj: Obj) -> str:
    parts = account_parts(obj)
    return parts[3] if len(parts) == 4 else ""


def by_override(obj: Obj) -> tuple[str, ...]:
    """An index of pods and reservations: the UIDs of overrides on whose account they are, or that their
    placement names; NAMESPACE/NAME where an older scheduler wrote no UID."""
    marks = (metadata(obj).get("annotations") or {}).get(USED_OVERRIDES)
    listed = marks.split(",") if isinstance(marks, str) else []
    named = [entry.strip().partition("@")[2] or entry.strip() for entry in listed]
    return tuple(dict.fromkeys(name for name in (charged_override(obj), *named) if name))


def is_placement(pod: Obj, override: SchedulerOverride) -> bool:
    """Whether the pod is where it is by this override. The server alone writes accounts; a mark, which
    anybody may have written, counts on pods of the target. A mark without a UID counts only if the pod was
    placed in the override's time: an earlier override of the same name is another one."""
    uid = override.metadata.uid
    if is_terminal(pod):
        return False
    if charged_override(pod) == uid:
        return True
    marks = (metadata(pod).get("annotations") or {}).get(USED_OVERRIDES)
    if not targets_pod(override, pod):
        return False
    if is_marked(marks, uid):
        return True
    name = f"{override.metadata.namespace}/{override.metadata.name}"
    if not isinstance(marks, str) or name not in [entry.strip() for entry in marks.split(",")]:
        return False
    placed = find_condition(conditions_of(pod), "PodScheduled") or {}
    began_ns = moment_ns(override.metadata.creation_timestamp) or 0
    return (moment_ns(str(placed.get("lastTransitionTime") or "")) or began_ns) >= began_ns


def owner_uid(pod: Obj) -> str:
    return str((controller_of(pod) or {}).get("uid") or "")


def nodes_of(override: SchedulerOverride, nodes: Iterable[Obj]) -> tuple[Obj, ...]:
    """The nodes that it cordons or drains."""
    return tuple(node for node in nodes if cordons(override, key_of(node).name, labels_of(node)))
