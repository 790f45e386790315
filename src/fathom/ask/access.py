"""What a user may learn: whoever may `get` an object may ask about it.

Who says so differs: the roles that this server holds, or the server of the cluster that it copies.
"""

from __future__ import annotations

from typing import Protocol

from fathom.api.auth.authorize import Authorizer
from fathom.api.request import RequestTarget
from fathom.explain.evidence import ObjectRef, Objects
from fathom.kube.definitions.kind import Kind
from fathom.model.objects import metadata
from fathom.model.user import User


class Access(Protocol):
    """One user's permissions: those for reading the objects themselves."""

    async def require(self, kind: Kind, subject: ObjectRef) -> None:
        """Raises 403 for a user that may not `get` the object, whether it exists or not."""
        ...

    async def may_get(self, kind: Kind, namespace: str, name: str) -> bool: ...

    async def may_read_nodes(self) -> bool: ...

    async def readable(self, objects: Objects) -> frozenset[str] | None:
        """The namespaces whose pods the user may get; None: all of them."""
        ...


class RoleAccess:
    """Permissions that RBAC grants at this server."""

    def __init__(self, authorizer: Authorizer, user: User) -> None:
        self._authorizer = authorizer
        self._user = user

    async def require(self, kind: Kind, subject: ObjectRef) -> None:
        self._authorizer.require(self._user, getting(kind, subject.namespace, subject.name))

    async def may_get(self, kind: Kind, namespace: str, name: str) -> bool:
        return self._authorizer.authorize(self._user, getting(kind, namespace, name)).allowed

    async def may_read_nodes(self) -> bool:
        return self._may(GETTING_NODES)

    async def readable(self, objects: Objects) -> frozenset[str] | None:
        if self._may(getting_pods("")):
            return None
        return frozenset(name for name in namespaces_of(objects) if self._may(getting_pods(name)))

    def _may(self, target: RequestTarget) -> bool:
        return self._authorizer.authorize(self._user, target).allowed


GETTING_NODES = RequestTarget(verb="get", path="", version="v1", plural="nodes")


def getting_pods(namespace: str) -> RequestTarget:
    """Of a namespace; '': of all of them."""
    return RequestTarget(verb="get", path="", version="v1", plural="pods", namespace=namespace)


def namespaces_of(objects: Objects) -> list[str]:
    return [str(metadata(namespace)["name"]) for namespace in objects.list("namespaces")]


def getting(kind: Kind, namespace: str, name: str) -> RequestTarget:
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
