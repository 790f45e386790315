"""Kinds as users name them, found in the discovery of the server: `po`, `deploy`, `deployments.apps`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

import msgspec

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.answers import done
from fathom.cli.problem import Problem

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One kind that the server has."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """'deployment.apps', as in 'deployment.apps/web created'"""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()

    @property
    def full_name(self) -> str:
        """'deployments.apps'"""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """`namespace`: '' for all of them."""
        parts = [f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts += [part for part in (self.plural, quote(name, safe=""), subresource) if part]
        return "/".join(parts)


class NamedObject(msgspec.Struct, frozen=True):
    """One object, by its kind and name."""

    resource: Resource
    namespace: str
    name: str

    @property
    def label(self) -> str:
        return f"{self.resource.label}/{self.name}"

    def path(self, subresource: str = "") -> str:
        return self.resource.path(self.namespace, self.name, subresource)


class Resources:
    """The kinds of one server, read once."""

    def __init__(self, server: ServerConnection) -> None:
        """Raises Problem."""
        documents = [
            done(*server.request("GET", path, accept=AGGREGATED), "the kinds of the server")
            for path in ("/api", "/apis")
        ]
        self.listed = [resource for document in documents for resource in listed_in(document)]
        if not self.listed:
            raise Problem(
                f"{server.url} has no aggregated discovery: it is no Kubernetes API server of 1.30 or newer"
            )

    def find(self, text: str) -> Resource:
        """Raises Problem."""
        return found(self.listed, text)

    def of_category(self, name: str) -> list[Resource]:
        """Kinds that a word such as 'all' stands for."""
        return [resource for resource in self.listed if name in resource.categories]

    def of_object(self, obj: dict[str, Any]) -> Resource:
        """Raises Problem."""
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        for resource in self.listed:
            if (resource.api_version, resource.kind) == (api_version, kind):
                return resource
        raise Problem(
            f'the server has no kind "{kind}" in version "{api_version}": check both, or install its'
            " CustomResourceDefinition first"
        )


def listed_in(document: dict[str, Any]) -> Iterable[Resource]:
    """The resources of an APIGroupDiscoveryList, preferred groups and versions first."""
    for group in document.get("items") or ():
        for version in group.get("versions") or ():
            for entry in version.get("resources") or ():
                yield Resource(
                    group=str((group.get("metadata") or {}).get("name") or ""),
                    version=str(version.get("version") or ""),
                    plural=str(entry.get("resource") or ""),
                    singular=str(entry.get("singularResource") or ""),
                    kind=str((entry.get("responseKind") or {}).get("kind") or ""),
                    namespaced=entry.get("scope") == "Namespaced",
                    short_names=tuple(entry.get("shortNames") or ()),
                    categories=tuple(entry.get("categories") or ()),
                    verbs=frozenset(entry.get("verbs") or ()),
                )


def found(resources: Sequence[Resource], typed: str) -> Resource:
    """The resource that a user means: 'deployments', 'Deployment', 'deploy', 'deployments.apps',
    'deployments.v1.apps'. Raises Problem."""
    name, _, rest = typed.lower().partition(".")
    for resource in resources:
        of_version = f"{resource.version}.{resource.group}".rstrip(".")
        if name in _names(resource) and rest in {"", resource.group, of_version}:
            return resource
    known = sorted({known for resource in resources for known in _names(resource)})
    near = get_close_matches(name, known, n=1)
    hint = f': did you mean "{near[0]}"?' if near else "; see all with `fathom get --kinds`"
    raise Problem(f'the server has no kind "{typed}"{hint}')


def _names(resource: Resource) -> set[str]:
    return {resource.plural, resource.singular, resource.kind.lower(), *resource.short_names}
