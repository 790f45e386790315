"""Claims that wait for their first consumer: where a volume could be had for them, and which one.

    a volume that is there, Available, large enough, of the class   bound to the claim where its nodes are
    none on the chosen node, and the class has a provisioner        made there: its allowedTopologies
    a node that was selected before                                 the claim is being provisioned there

As kube-scheduler's VolumeBinding does it, but for CSIStorageCapacity: how much a driver has left is not read.
Pure. Only where fathom is attached: its own server has nobody who would bind or provision.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fathom.model.objects import Obj, labels_of, lookup, metadata, uid_of
from fathom.model.podresources import amounts
from fathom.model.quantity import ZERO
from fathom.model.selectors import IN, LabelSelector, Requirement
from fathom.schedule.decide.context import DelayedClaim, Terms
from fathom.schedule.decide.read_shape import node_terms_of
from fathom.schedule.decide.shape import NodeTerm

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def is_bound(claim: Obj) -> bool:
    """Both sides of the binding are written."""
    notes = metadata(claim).get("annotations") or {}
    done = BIND_COMPLETED in notes or lookup(claim, "status", "phase") == "Bound"
    return bool(lookup(claim, "spec", "volumeName")) and done


def selected_node(claim: Obj) -> str:
    return str((metadata(claim).get("annotations") or {}).get(SELECTED_NODE) or "")


def delayed_claim(claim: Obj, volumes: Mapping[str, Obj], classes: Mapping[str, Obj]) -> DelayedClaim | None:
    """None: the claim does not wait for a consumer."""
    storage_class = classes.get(_class_of(claim))
    if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
        return None
    offers = [_nodes_of(volume) for volume in volumes.values() if _suits(volume, claim)]
    if storage_class.get("provisioner") != NO_PROVISIONER:
        offers.append(_topologies(storage_class))
    return DelayedClaim(selected_node(claim), tuple(dict.fromkeys(offers)))


def chosen_volume(claim: Obj, node: Obj, volumes: Mapping[str, Obj], taken: Collection[str]) -> Obj | None:
    """The smallest volume for the claim that this node reaches; None: one has to be provisioned. `taken`:
    names of volumes that the pod's other claims get."""
    if selected_node(claim):
        return None
    suitable = [
        (_size_of(volume, "capacity"), name, volume)
        for name, volume in volumes.items()
        if name not in taken and _suits(volume, claim) and reaches(_nodes_of(volume), node)
    ]
    return min(suitable, key=lambda each: each[:2])[2] if suitable else None


def reaches(terms: Terms, node: Obj) -> bool:
    labels, fields = labels_of(node), {"metadata.name": str(metadata(node).get("name") or "")}
    return terms is None or any(
        (term.labels or term.fields)
        and all(requirement.matches(labels) for requirement in term.labels)
        and all(requirement.matches(fields) for requirement in term.fields)
        for term in terms
    )


def is_reached(claim: Obj, node: Obj, volumes: Mapping[str, Obj]) -> bool:
    """Whether the volume that a bound claim has got is one for this node."""
    volume = volumes.get(str(lookup(claim, "spec", "volumeName") or ""))
    return volume is not None and reaches(_nodes_of(volume), node)


def selection_patch(claim: Obj, node: str) -> Obj:
    """Asks the provisioner for a volume that this node reaches."""
    revision = metadata(claim).get("resourceVersion")
    return {"metadata": {"resourceVersion": revision, "annotations": {SELECTED_NODE: node}}}


def binding_patch(volume: Obj, claim: Obj) -> Obj:
    """Gives the volume to the claim; the volume controller writes the claim's side."""
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        **{name: metadata(claim).get(name) for name in ("namespace", "name", "uid", "resourceVersion")},
    }
    meta = {
        "resourceVersion": metadata(volume).get("resourceVersion"),
        "annotations": {BOUND_BY_CONTROLLER: "yes"},
    }
    return {"metadata": meta, "spec": {"claimRef": reference}}


def _class_of(obj: Obj) -> str:
    return str(lookup(obj, "spec", "storageClassName") or "")


def _nodes_of(volume: Obj) -> Terms:
    return node_terms_of(lookup(volume, "spec", "nodeAffinity", "required"))


def _topologies(storage_class: Obj) -> Terms:
    """A term of allowedTopologies lists, for each label, the values that a node may have."""
    allowed = storage_class.get("allowedTopologies")
    if not allowed:
        return None
    return tuple(
        NodeTerm(
            labels=tuple(
                Requirement(str(each.get("key")), IN, tuple(sorted(map(str, each.get("values") or ()))))
                for each in term.get("matchLabelExpressions") or ()
            )
        )
        for term in allowed
    )


def _suits(volume: Obj, claim: Obj) -> bool:
    """Whether the claim could have this volume, were it not for the nodes."""
    reference = lookup(volume, "spec", "claimRef")
    if reference is not None:
        return str(reference.get("uid") or "") == uid_of(claim)
    if lookup(volume, "status", "phase") != "Available" or "deletionTimestamp" in metadata(volume):
        return False
    modes = set(lookup(volume, "spec", "accessModes") or ())
    selector = lookup(claim, "spec", "selector")
    return (
        _class_of(volume) == _class_of(claim)
        and _mode_of(volume) == _mode_of(claim)
        and modes >= set(lookup(claim, "spec", "accessModes") or ())
        and _size_of(volume, "capacity") >= _size_of(claim, "resources", "requests")
        and (not selector or LabelSelector.from_object(selector).matches(labels_of(volume)))
    )


def _mode_of(obj: Obj) -> str:
    return str(lookup(obj, "spec", "volumeMode") or "Filesystem")


def _size_of(obj: Obj, *path: str) -> int:
    return amounts(lookup(obj, "spec", *path) or {}).get("storage", ZERO).value
