"""Permissions of nodes beyond RBAC: run the pods that are bound to them, and read what these need.

A node is the user `system:node:NAME` in the group `system:nodes`. This file decides what a node may request;
`node_writes` checks what it writes. A node can access a Secret, a ConfigMap, a claim or a service account
only while a pod bound to it refers to that object; a mirror pod, which the node itself creates, gives no
access.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.api.auth.rbac import RbacDecision
from fathom.api.auth.references import refers_to
from fathom.api.request import RequestTarget
from fathom.model.accounts import NODE_USER, NODES
from fathom.model.mirror import is_mirror
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.pod_phase import is_terminal
from fathom.model.user import User
from fathom.model.view import View
from fathom.model.well_known import NODE_LEASE_NAMESPACE

CERTIFICATES = "certificates.k8s.io"
CERTIFICATE_REQUESTS = f"podcertificaterequests.{CERTIFICATES}"

# Objects known to be accessible to a node, each with the pod that refers to it. A thousand nodes with thirty
# pods of three references each; beyond that the oldest are looked up again.
WITNESSES_MAX = 100_000

READ = frozenset({"get", "list", "watch"})
WRITE = frozenset({"update", "patch"})

# What every node may request, whatever runs on it; `node_writes` or its own rule below decides for which
# objects. (group, plural, subresource) -> verbs.
STANDING: dict[tuple[str, str, str], frozenset[str]] = {
    ("authentication.k8s.io", "tokenreviews", ""): frozenset({"create"}),
    ("authorization.k8s.io", "subjectaccessreviews", ""): frozenset({"create"}),
    ("authorization.k8s.io", "localsubjectaccessreviews", ""): frozenset({"create"}),
    ("", "services", ""): READ,
    ("", "endpoints", ""): READ,
    ("discovery.k8s.io", "endpointslices", ""): READ,
    ("", "nodes", ""): READ | WRITE | {"create"},
    ("", "nodes", "status"): WRITE,
    ("", "pods", ""): READ | {"create", "delete"},
    ("", "pods", "status"): WRITE,
    ("", "pods", "eviction"): frozenset({"create"}),
    ("", "events", ""): WRITE | {"create"},
    ("events.k8s.io", "events", ""): WRITE | {"create"},
    ("certificates.k8s.io", "certificatesigningrequests", ""): READ | {"create"},
    ("storage.k8s.io", "csidrivers", ""): READ,
    ("storage.k8s.io", "csinodes", ""): WRITE | {"get", "create", "delete"},
    ("storage.k8s.io", "volumeattachments", ""): frozenset({"get"}),
    ("node.k8s.io", "runtimeclasses", ""): READ,
}

# What is accessible only through a pod on the node.
THROUGH_PODS: dict[tuple[str, str, str], frozenset[str]] = {
    ("", "secrets", ""): READ,
    ("", "configmaps", ""): READ,
    ("", "persistentvolumeclaims", ""): frozenset({"get"}),
    ("", "persistentvolumeclaims", "status"): WRITE | {"get"},
    ("", "persistentvolumes", ""): frozenset({"get"}),
    ("", "serviceaccounts", "token"): frozenset({"create"}),
}

_ALLOWED = RbacDecision(True)


def node_name(user: User) -> str | None:
    """The node's name; None if the user is not a node. '' is a node without a name."""
    if NODES in user.groups and user.name.startswith(NODE_USER):
        return user.name[len(NODE_USER) :]
    return None


class NodeAccess:
    def __init__(self, view: View) -> None:
        self._view = view
        self._witnesses: dict[tuple[str, str, Key], Key] = {}  # (node, plural, object) -> a pod; a hint only.

    def decide(self, user: User, target: RequestTarget) -> RbacDecision:
        node = node_name(user)
        if not node:
            return RbacDecision(False)
        resource = (target.group, target.plural, target.subresource)
        if target.verb in STANDING.get(resource, ()):
            return _ALLOWED
        if resource == ("coordination.k8s.io", "leases", ""):
            return _lease(node, target)
        if resource == (CERTIFICATES, "podcertificaterequests", ""):
            return self._certificate_request(node, target)
        if target.verb in THROUGH_PODS.get(resource, ()):
            return self._through_pods(node, target)
        return RbacDecision(False)

    def _through_pods(self, node: str, target: RequestTarget) -> RbacDecision:
        if not target.name:
            # A list can be authorized only if it names its one object (metadata.name=...).
            return RbacDecision(False, f"can only read resources of this type by name, for node {node!r}")
        wanted = Key(target.namespace, target.name)
        plural = target.plural
        if plural == "persistentvolumes":
            claim = self._claim_of(target.name)
            if claim is None:
                return _unrelated(node)
            plural, wanted = "persistentvolumeclaims", claim
        return _ALLOWED if self._opened(node, plural, wanted) else _unrelated(node)

    def _certificate_request(self, node: str, target: RequestTarget) -> RbacDecision:
        """Certificate requests of its own pods: one by one, or all that a field selector restricts to the
        node."""
        if target.verb in {"list", "watch"} and target.node == node:
            return _ALLOWED
        if target.verb != "get":
            return RbacDecision(
                False, f"can only list and watch with the field selector spec.nodeName={node}"
            )
        seen = self._view.get(CERTIFICATE_REQUESTS, Key(target.namespace, target.name))
        mine = seen is not None and lookup(seen.obj, "spec", "nodeName") == node
        return _ALLOWED if mine else _unrelated(node)

    def _claim_of(self, volume: str) -> Key | None:
        seen = self._view.get("persistentvolumes", Key("", volume))
        ref = lookup(seen.obj, "spec", "claimRef") if seen else None
        return Key(str(ref.get("namespace")), str(ref.get("name"))) if isinstance(ref, dict) else None

    def _opened(self, node: str, plural: str, wanted: Key) -> bool:
        """The pod that gave access before is tried first: the namespace's pods are scanned once per object,
        not once per request."""
        hint = (node, plural, wanted)
        witness = self._witnesses.get(hint)
        seen = self._view.get("pods", witness) if witness else None
        if seen is not None and _opens(seen.obj, node, plural, wanted.name):
            return True
        self._witnesses.pop(hint, None)
        for pod in self._pods(wanted.namespace):
            if _opens(pod, node, plural, wanted.name):
                self._keep(hint, key_of(pod))
                return True
        return False

    def _pods(self, namespace: str) -> Iterator[Obj]:
        return (seen.obj for seen in self._view.list("pods", namespace))

    def _keep(self, hint: tuple[str, str, Key], pod: Key) -> None:
        if len(self._witnesses) >= WITNESSES_MAX:
            del self._witnesses[next(iter(self._witnesses))]
        self._witnesses[hint] = pod


def _opens(pod: Obj, node: str, plural: str, name: str) -> bool:
    """A mirror pod gives no access: the node itself created it, and could make it refer to anything."""
    if lookup(pod, "spec", "nodeName") != node or is_mirror(pod):
        return False
    return not is_terminal(pod) and refers_to(pod, plural, name)


def _lease(node: str, target: RequestTarget) -> RbacDecision:
    if target.verb not in {"get", "create", "update", "patch", "delete"}:
        return RbacDecision(False)
    if target.namespace != NODE_LEASE_NAMESPACE:
        return RbacDecision(False, f'can only access leases in the "{NODE_LEASE_NAMESPACE}" system namespace')
    if target.verb != "create" and target.name != node:
        return RbacDecision(False, "can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _unrelated(node: str) -> RbacDecision:
    return RbacDecision(False, f"no relationship found between node '{node}' and this object")
