"""NodeRestriction and NodeConditions as plugins; their rules are in `auth.node_writes`."""

from __future__ import annotations

from fathom.api.admission.attempt import CONNECT, CREATE, DELETE, UPDATE, WriteAttempt
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.node_writes import restrict_node, with_others_conditions
from fathom.api.request import RequestTarget
from fathom.model.accounts import NODES
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Obj
from fathom.model.view import View

VERBS = {CREATE: "create", UPDATE: "update", DELETE: "delete", CONNECT: "connect"}


class NodeConditions(Plugin):
    """Conditions that controllers set on a node are kept when the node reports its status."""

    name = "NodeConditions"
    resources = frozenset({"nodes"})
    operations = frozenset({CREATE, UPDATE})
    subresources = frozenset({"", "status"})
    trusted = True
    writes = (Writes("Node", ("status.conditions",)),)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        if NODES not in attempt.user.groups:
            return attempt.obj
        return with_others_conditions(attempt.obj, attempt.old)


class NodeRestriction(Plugin):
    name = "NodeRestriction"
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None
    trusted = True
    reads = (
        Reads("CapacityClass", ("spec",)),
        Reads("Node", ("metadata",)),
        Reads("Pod", ("metadata", "spec.nodeName")),
    )

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if NODES not in attempt.user.groups:  # Nearly all users: do not build the target for them.
            return
        target = RequestTarget(
            verb=VERBS[attempt.operation],
            path="",
            group=attempt.kind.group,
            version=attempt.kind.version,
            plural=attempt.kind.plural,
            namespace=attempt.namespace,
            name=attempt.name,
            subresource=attempt.subresource,
        )
        restrict_node(attempt.user, target, attempt.obj, attempt.old, view)
