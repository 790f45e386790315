"""The registry's `model.view.Resources`: paths and names of resources, for code that handles any kind."""

from __future__ import annotations

from urllib.parse import quote

from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry


class RegistryResources:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def path(self, resource: str, namespace: str, name: str = "") -> str | None:
        kind = self._registry.by_resource(resource)
        return None if kind is None else path_of(kind, namespace, name)

    def named(self, api_version: str, kind: str) -> str | None:
        group, _, version = api_version.rpartition("/")
        definition = self._registry.by_gvk(group, version, kind)
        if definition is None or definition.virtual or not definition.plural:
            return None
        return definition.stored_as or definition.resource

    def is_namespaced(self, resource: str) -> bool:
        kind = self._registry.by_resource(resource)
        return kind is not None and kind.namespaced

    def all_namespaced(self) -> list[str]:
        return [
            kind.resource
            for kind in self._registry.kinds()
            if kind.namespaced and not kind.virtual and not kind.stored_as and "delete" in kind.verbs
        ]


def path_of(kind: Kind, namespace: str, name: str = "") -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    last = f"/{quote(name, safe=':')}" if name else ""
    return f"{root}{inside}/{kind.plural}{last}"
