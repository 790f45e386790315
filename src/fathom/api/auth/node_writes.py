"""NodeRestriction: a node may write about itself and the pods bound to it, and nothing else.

Above all it may not give itself labels by which it would be given more pods. This is an admission check:
authorization has already allowed nodes this verb on this resource.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fathom.api.auth.node_tokens import token_fault
from fathom.api.auth.nodes import node_name
from fathom.api.auth.references import references
from fathom.api.request import RequestTarget
from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.model.causes import quoted
from fathom.model.errors import ApiError, forbidden
from fathom.model.mirror import MIRROR, is_mirror
from fathom.model.objects import Key, Obj, labels_of, lookup, metadata, uid_of
from fathom.model.user import User
from fathom.model.view import View
from fathom.model.well_known import HOSTNAME_LABEL, NODE_LEASE_NAMESPACE, REGION_LABEL, ZONE_LABEL

# Label namespaces in which a node may use only the following. node-restriction.kubernetes.io, which
# guarantees that no node wrote it, is one that it may not use. Of fathom.dev a node has a closed list: trust,
# pools and observations of a node are written by controllers and operators.
OURS = ("fathom.dev",)
RESERVED = ("kubernetes.io", "k8s.io", *OURS)
OWN_ANNOTATIONS = frozenset({"fathom.dev/agent-certificate", "fathom.dev/agent-notice"})
OWN_LABELS = frozenset(
    {
        HOSTNAME_LABEL,
        "kubernetes.io/os",
        "kubernetes.io/arch",
        REGION_LABEL,
        ZONE_LABEL,
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "fathom.dev/driver",
    }
)
OWN_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")


class NodeWrite(NamedTuple):
    node: str
    target: RequestTarget
    obj: Obj  # As it would be stored; {} for a deletion.
    old: Obj  # As it is stored; {} for a creation.
    view: View


def restrict_node(user: User, target: RequestTarget, obj: Obj | None, old: Obj | None, view: View) -> None:
    """Raise 403 unless the node may make this write; users that are not nodes pass. `obj` is what would be
    stored, or the body of a subresource that is not stored (eviction, token)."""
    node = node_name(user)
    if node is None:
        return
    if not node:
        raise _forbid(target, obj, f"could not determine node from user {quoted(user.name)}")
    check = CHECKS.get((target.group, target.plural))
    fault = check(NodeWrite(node, target, obj or {}, old or {}, view)) if check else None
    if fault:
        raise _forbid(target, obj, fault)


def _forbid(target: RequestTarget, obj: Obj | None, fault: str) -> ApiError:
    resource = f"{target.plural}.{target.group}" if target.group else target.plural
    name = target.name or str(metadata(obj or {}).get("name") or "")
    subject = f"{resource} {quoted(name)}" if name else resource
    return forbidden(f"{subject} is forbidden: {fault}", resource=resource, name=name)


def _pod(write: NodeWrite) -> str | None:
    match write.target.subresource, write.target.verb:
        case "", "create":
            return _mirror_pod(write)
        case "", ("delete" | "deletecollection"):
            return _unless_bound(write, "can only delete pods with spec.nodeName set to itself")
        case "", verb:
            return (
                f"unexpected operation {quoted(verb.upper())}, "
                f"node {quoted(write.node)} can only create and delete mirror pods"
            )
        case "status", _:
            return _pod_status(write)
        case "eviction", _:
            return _eviction(write)
        case subresource, _:
            return (
                f"unexpected pod subresource {quoted(subresource)}, only 'status' and 'eviction' are allowed"
            )


def _unless_bound(write: NodeWrite, fault: str) -> str | None:
    if lookup(write.old, "spec", "nodeName") == write.node:
        return None
    return f"node {quoted(write.node)} {fault}"


def _mirror_pod(write: NodeWrite) -> str | None:
    pod, node = write.obj, quoted(write.node)
    if not is_mirror(pod):
        return f"pod does not have {quoted(MIRROR)} annotation, node {node} can only create mirror pods"
    if lookup(pod, "spec", "nodeName") != write.node:
        return f"node {node} can only create pods with spec.nodeName set to itself"
    if not _owned_by(metadata(pod).get("ownerReferences"), write):
        return f"node {node} can only create pods with an owner reference set to itself"
    if lookup(pod, "spec", "serviceAccountName"):
        return f"node {node} can not create pods that reference a service account"
    if lookup(pod, "spec", "resourceClaims"):
        return f"node {node} can not create pods that reference resourceclaims"
    for plural, _ in references(pod):
        return f"node {node} can not create pods that reference {plural}"
    return None


def _owned_by(owners: list[Obj] | None, write: NodeWrite) -> bool:
    """Whether its own node is the only owner, so that deleting the node deletes the pod, and no other owner
    is claimed."""
    seen = write.view.get("nodes", Key("", write.node))
    if not isinstance(owners, list) or len(owners) != 1 or seen is None:
        return False
    owner = owners[0]
    named = (owner.get("apiVersion"), owner.get("kind"), owner.get("name"), owner.get("uid"))
    return named == ("v1", "Node", write.node, uid_of(seen.obj)) and not owner.get("blockOwnerDeletion")


def _pod_status(write: NodeWrite) -> str | None:
    if labels_of(write.old) != labels_of(write.obj):
        return f"node {quoted(write.node)} cannot update labels through pod status"
    return _unless_bound(write, "can only update pod status for pods with spec.nodeName set to itself")


def _eviction(write: NodeWrite) -> str | None:
    name = write.target.name or str(metadata(write.obj).get("name"))
    seen = write.view.get("pods", Key(write.target.namespace, name))
    if seen is not None and lookup(seen.obj, "spec", "nodeName") == write.node:
        return None
    return f"node {quoted(write.node)} can only evict pods with spec.nodeName set to itself"


def _node(write: NodeWrite) -> str | None:
    name = write.target.name or str(metadata(write.obj).get("name"))
    if name != write.node:
        return f"node {quoted(write.node)} is not allowed to modify node {quoted(name)}"
    if fault := _annotations(write):
        return fault
    if write.target.verb == "create":
        return _labels(write, "set the following labels")
    if write.target.verb not in {"update", "patch"}:
        return None
    # A node that could remove its own taints would attract pods that were meant to be kept away.
    if lookup(write.obj, "spec", "taints") != lookup(write.old, "spec", "taints"):
        return f"node {quoted(write.node)} is not allowed to modify taints"
    if metadata(write.obj).get("ownerReferences") != metadata(write.old).get("ownerReferences"):
        return f"node {quoted(write.node)} is not allowed to modify ownerReferences"
    return _labels(write, "modify labels")


def _labels(write: NodeWrite, action: str) -> str | None:
    new, old = labels_of(write.obj), labels_of(write.old)
    changed = _changed(new, old)
    pools = _pool_labels(write.view) if changed else frozenset()
    refused = [name for name in changed if not _own_label(name) or name in pools]
    return f"is not allowed to {action}: {', '.join(refused)}" if refused else None


def _annotations(write: NodeWrite) -> str | None:
    new, old = (metadata(obj).get("annotations") or {} for obj in (write.obj, write.old))
    refused = [name for name in _changed(new, old) if _is_ours(name) and name not in OWN_ANNOTATIONS]
    return f"is not allowed to modify annotations: {', '.join(refused)}" if refused else None


def _changed(new: Obj, old: Obj) -> list[str]:
    return sorted(name for name in {**old, **new} if new.get(name) != old.get(name))


def _is_ours(name: str) -> bool:
    return _within(name.partition("/")[0], OURS)


def _pool_labels(view: View) -> frozenset[str]:
    """The labels that select reserved capacity: a node that could set one would be given pods of that
    class."""
    selectors = (lookup(seen.obj, "spec", "nodeSelector") or {} for seen in view.list(CAPACITY_CLASSES))
    return frozenset(name for selector in selectors for name in selector) - OWN_LABELS


def with_others_conditions(obj: Obj, old: Obj | None) -> Obj:
    """A node's status as the node reports it, with the conditions that controllers keep on it (Suspect,
    Quarantined) unchanged. The same object if nothing is to be put back."""
    reported = lookup(obj, "status", "conditions") or []
    kept = {
        condition.get("type"): condition
        for condition in lookup(old, "status", "conditions") or ()
        if _is_others(condition)
    }
    mixed = [
        kept.pop(condition.get("type"), None) if _is_others(condition) else condition
        for condition in reported
    ]
    conditions = [*(condition for condition in mixed if condition is not None), *kept.values()]
    if conditions == reported:
        return obj
    return {**obj, "status": {**(obj.get("status") or {}), "conditions": conditions}}


def _is_others(condition: Obj) -> bool:
    return _is_ours(str(condition.get("type")))


def _own_label(label: str) -> bool:
    namespace, slash, _ = label.partition("/")
    if not slash or not _within(namespace, RESERVED):
        return True
    return label in OWN_LABELS or _within(namespace, OWN_NAMESPACES)


def _within(namespace: str, domains: tuple[str, ...]) -> bool:
    return any(namespace == domain or namespace.endswith(f".{domain}") for domain in domains)


def _lease(write: NodeWrite) -> str | None:
    if write.target.namespace != NODE_LEASE_NAMESPACE:
        return f"can only access leases in the {quoted(NODE_LEASE_NAMESPACE)} system namespace"
    if (write.target.name or metadata(write.obj).get("name")) != write.node:
        return "can only access node lease with the same name as the requesting node"
    return None


def _csi_node(write: NodeWrite) -> str | None:
    if (write.target.name or metadata(write.obj).get("name")) != write.node:
        return "can only access CSINode with the same name as the requesting node"
    return None


def _token(write: NodeWrite) -> str | None:
    if write.target.subresource != "token":
        return None
    return token_fault(write.node, write.target.namespace, write.obj, write.view)


# What a node reports of a claim: its size after a resize.
CLAIM_STATUS = frozenset(
    {
        "capacity",
        "conditions",
        "allocatedResources",
        "allocatedResourceStatuses",
        "currentVolumeAttributesClassName",
        "modifyVolumeStatus",
    }
)


def _claim_status(write: NodeWrite) -> str | None:
    changed = _changed(write.obj.get("status") or {}, write.old.get("status") or {})
    others = [name for name in changed if name not in CLAIM_STATUS]
    if not others:
        return None
    return f"node {quoted(write.node)} is not allowed to update status fields: {', '.join(others)}"


CHECKS: dict[tuple[str, str], Callable[[NodeWrite], str | None]] = {
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _claim_status,
    ("", "serviceaccounts"): _token,
    ("coordination.k8s.io", "leases"): _lease,
    ("storage.k8s.io", "csinodes"): _csi_node,
}
