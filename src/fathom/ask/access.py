"""What a user may learn: whoever may `get` an object may ask about it."""

from __future__ import annotations

from fathom.api.auth.authorize import Authorizer
from fathom.api.request import RequestTarget
from fathom.explain.evidence import ObjectRef, Objects
from fathom.kube.definitions.kind import Kind
from fathom.model.objects import metadata
from fathom.model.user import User


class Access:
    """One user's permissions: those that RBAC grants for reading the objects themselves."""

    def __init__(self, authorizer: Authorizer, user: User) -> None:
        self._authorizer = authorizer
        self._user = user

    def require(self, kind: Kind, subject: ObjectRef) -> None:
        """Raises 403 for a user that may not `get` the object, whether it exists or not."""
        self._authorizer.require(self._user, _getting(kind, subject.namespace, subject.name))

    def may_get(self, kind: Kind, namespace: str, name: str) -> bool:
        return self._authorizer.authorize(self._user, _getting(kind, namespace, name)).allowed

    @property
    def may_read_nodes(self) -> bool:
        return self._may("nodes", "")

    def readable(self, objects: Objects) -> frozenset[str] | None:
        """The namespaces whose pods the user may get; None: all of them."""
        if self._may("pods", ""):
            return None
        names = [str(metadata(namespace)["name"]) for namespace in objects.list("namespaces")]
        return frozenset(name for name in names if self._may("pods", name))

    def _may(self, plural: str, namespace: str) -> bool:
        target = RequestTarget(verb="get", path="", version="v1", plural=plural, namespace=namespace)
        return self._authorizer.authorize(self._user, target).allowed


def _getting(kind: Kind, namespace: str, name: str) -> RequestTarget:
    """As a request for the object would be judged: one for a Namespace is about that namespace."""
    within = namespace if kind.namespaced else name if kind.resource == "namespaces" else ""
    return RequestTarget(
        verb="get",
        path="",
        group=kind.group,
        version=kind.version,
        plural=kind.plural,
        namespace=within,
        name=name,
    )
