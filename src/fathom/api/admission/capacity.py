"""CapacityClassUse: reserved capacity is for the tenants that its class names, and for permitted overrides.

Other tenants get in by an override, whose writer needs the verb `use` on the CapacityClass.
"""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.request import RequestTarget
from fathom.kinds.capacity_class import CAPACITY_CLASS, CAPACITY_CLASSES, CapacityClass
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.shape import GROUP, VERSION, read
from fathom.model.accounts import NODES
from fathom.model.declared import Reads
from fathom.model.objects import Key, Obj, labels_of, lookup
from fathom.model.tenancy import tenant_of
from fathom.model.view import View


class CapacityClassUse(Plugin):
    name = "CapacityClassUse"
    resources = frozenset({"pods", OVERRIDES})
    operations = frozenset({CREATE, UPDATE})
    trusted = True
    reads = (
        Reads("CapacityClass", ("spec",)),
        Reads("Namespace", ("metadata.labels",)),
        Reads("Node", ("metadata.labels",)),
    )

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        wanted = (
            _class_of_override(attempt)
            if attempt.kind.resource == OVERRIDES
            else _class_of_node(attempt, view)
        )
        if wanted and not self._may_use(attempt, wanted):
            why = f'{attempt.user.name} may not use capacity class "{wanted}"'
            raise refused(attempt, f"{why}: it needs the verb use on that CapacityClass")

    def _may_use(self, attempt: WriteAttempt, name: str) -> bool:
        target = RequestTarget(
            verb="use", path="", group=GROUP, version=VERSION, plural="capacityclasses", name=name
        )
        return self._authorizer.by_roles(attempt.user, target).allowed


def _class_of_override(attempt: WriteAttempt) -> str:
    """The class that an override opens, if this write changes the override's spec: also its duration or its
    number of pods."""
    spec, before = (attempt.obj or {}).get("spec"), (attempt.old or {}).get("spec")
    return "" if spec == before else str(lookup(spec, "changes", "allowReservedCapacityClass") or "")


def _class_of_node(attempt: WriteAttempt, view: View) -> str:
    """The class whose capacity a pod takes that is created with its node, bypassing every scheduler, though
    the class does not admit its tenant. (`api.binding` checks bindings, in their own commit. Pods that a node
    reports already run there.)"""
    pod = attempt.obj or {}
    name = str(lookup(pod, "spec", "nodeName") or "")
    if not name or attempt.operation != CREATE or NODES in attempt.user.groups:
        return ""
    seen = view.get("nodes", Key("", name))
    namespace = view.get("namespaces", Key("", attempt.namespace))
    tenant = tenant_of(pod, namespace.obj if namespace is not None else None)
    return _class_closed_to(tenant, pod, seen.obj if seen is not None else {}, view)


def _class_closed_to(tenant: str, pod: Obj, node: Obj, view: View) -> str:
    named = lookup(pod, "metadata", "annotations", CAPACITY_CLASS)
    for seen in view.list(CAPACITY_CLASSES):
        capacity_class = read(CapacityClass, seen.obj)
        taken = capacity_class.name == named or (
            capacity_class.exclusive and capacity_class.holds(labels_of(node))
        )
        if taken and not capacity_class.admits(tenant):
            return capacity_class.name
    return ""
