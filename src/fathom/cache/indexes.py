"""Ready-made indexes: functions from an object to the values it is found under.

An index function never raises, whatever the object holds: any client may have written it. Any function of
this signature can be used as an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fathom.kinds.scheduling_policy import POLICY
from fathom.model.objects import Obj, metadata
from fathom.model.tenancy import TENANT
from fathom.model.well_known import ZONE_LABEL

Index = Callable[[Obj], Iterable[str]]


OWNER = "owner"


def by_owner(obj: Obj) -> tuple[str, ...]:
    """The UIDs of all owners, not only the controlling one."""
    owners = metadata(obj).get("ownerReferences")
    if not isinstance(owners, list):
        return ()
    uids = [owner.get("uid") for owner in owners if isinstance(owner, dict)]
    return tuple([uid for uid in uids if isinstance(uid, str)])


def by_node(obj: Obj) -> tuple[str, ...]:
    """The node that a pod is bound to. Unbound pods are under ''."""
    return _if_set(_spec(obj).get("nodeName")) or ("",)


def by_zone(obj: Obj) -> tuple[str, ...]:
    """The zone of a node, by its label."""
    return _if_set(_label(obj, ZONE_LABEL))


def by_tenant(obj: Obj) -> tuple[str, ...]:
    """The tenant that the object itself names, else its namespace (for a Namespace: its own name). For the
    tenant in a namespace's label, join with the namespaces."""
    named = _label(obj, TENANT)
    if named:
        return _if_set(named)
    meta = metadata(obj)
    return _if_set(meta.get("namespace") or meta.get("name"))


def by_priority_class(obj: Obj) -> tuple[str, ...]:
    return _if_set(_spec(obj).get("priorityClassName"))


def by_policy_revision(obj: Obj) -> tuple[str, ...]:
    """The policy that a pod was placed under, as its binding wrote it on the pod. A policy never changes: its
    name is its revision."""
    annotations = metadata(obj).get("annotations")
    return _if_set(annotations.get(POLICY)) if isinstance(annotations, dict) else ()


# The default of every cache: the reconcile loop looks up objects by owner.
STANDARD: dict[str, Index] = {OWNER: by_owner}

# For pods: the lookups of the scheduler and the quota.
FOR_PODS: dict[str, Index] = {
    **STANDARD,
    "node": by_node,
    "tenant": by_tenant,
    "priority-class": by_priority_class,
    "policy-revision": by_policy_revision,
}

FOR_NODES: dict[str, Index] = {"zone": by_zone}


def _spec(obj: Obj) -> Obj:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else _NOTHING


def _label(obj: Obj, name: str) -> Any:
    labels = metadata(obj).get("labels")
    return labels.get(name) if isinstance(labels, dict) else None


def _if_set(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) and value else ()


_NOTHING: Obj = {}
