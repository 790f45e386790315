"""What was made under break-glass: roles, bindings and service accounts that carry the override's UID."""

from __future__ import annotations

from collections.abc import Container

from fathom.client.api import Api, Resource
from fathom.kinds.override_status import BREAK_GLASS
from fathom.kinds.scheduler_override import Effect
from fathom.model.objects import Obj, key_of, labels_of, metadata, uid_of
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.resources import SERVICE_ACCOUNTS

CLUSTER_ROLES = Resource(RBAC_GROUP, "v1", "clusterroles", namespaced=False)
KINDS = {
    "Role": Resource(RBAC_GROUP, "v1", "roles"),
    "RoleBinding": Resource(RBAC_GROUP, "v1", "rolebindings"),
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": Resource(RBAC_GROUP, "v1", "clusterrolebindings", namespaced=False),
    "ServiceAccount": SERVICE_ACCOUNTS,
}


async def fetch_role_exists(api: Api, role: str) -> bool:
    return await api.get(CLUSTER_ROLES, "", role) is not None


async def fetch_made_under(api: Api, uid: str, recorded: Container[Effect]) -> tuple[Effect, ...]:
    """KIND NAMESPACE/NAME of each that carries the UID, or is recorded in the override's status: a mark may
    have been removed."""
    listed = [(kind, obj) for kind, resource in KINDS.items() for obj in await _fetch_all(api, resource)]
    return tuple(
        effect for kind, obj in listed if (effect := _effect(kind, obj)) in recorded or uid in _marks(obj)
    )


def _effect(kind: str, obj: Obj) -> Effect:
    return Effect("role", f"{kind} {'/'.join(part for part in key_of(obj) if part)}", uid_of(obj))


async def _fetch_all(api: Api, resource: Resource) -> list[Obj]:
    page = await api.list_page(resource)
    objects = page.items
    while page.token:
        page = await api.list_page(resource, token=page.token)
        objects = [*objects, *page.items]
    return objects


def _marks(obj: Obj) -> tuple[object, object]:
    return (labels_of(obj).get(BREAK_GLASS), (metadata(obj).get("annotations") or {}).get(BREAK_GLASS))
