"""What was made under break-glass: roles, bindings and service accounts that carry the override's UID."""

from __future__ import annotations

from collections.abc import Container

from fathom.client.api import Api, Resource
from fathom.kinds.override_status import BREAK_GLASS
from fathom.model.objects import Obj, key_of, labels_of, metadata

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", namespaced=False)
KINDS = {
    "Role": Resource(_RBAC, "v1", "roles"),
    "RoleBinding": Resource(_RBAC, "v1", "rolebindings"),
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": Resource(_RBAC, "v1", "clusterrolebindings", namespaced=False),
    "ServiceAccount": Resource("", "v1", "serviceaccounts"),
}


async def fetch_role_exists(api: Api, role: str) -> bool:
    return await api.get(CLUSTER_ROLES, "", role) is not None


async def fetch_made_under(api: Api, uid: str, recorded: Container[str]) -> tuple[str, ...]:
    """KIND NAMESPACE/NAME of each that carries the UID, or is recorded in the override's status: a mark may
    have been removed."""
    listed = [(kind, obj) for kind, resource in KINDS.items() for obj in await _fetch_all(api, resource)]
    return tuple(name for kind, obj in listed if (name := _name(kind, obj)) in recorded or uid in _marks(obj))


def _name(kind: str, obj: Obj) -> str:
    return f"{kind} {'/'.join(part for part in key_of(obj) if part)}"


async def _fetch_all(api: Api, resource: Resource) -> list[Obj]:
    page = await api.list_page(resource)
    objects = page.items
    while page.token:
        page = await api.list_page(resource, token=page.token)
        objects = [*objects, *page.items]
    return objects


def _marks(obj: Obj) -> tuple[object, object]:
    return (labels_of(obj).get(BREAK_GLASS), (metadata(obj).get("annotations") or {}).get(BREAK_GLASS))
