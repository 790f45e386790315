"""Keeps the registry's custom kinds in step with the CustomResourceDefinitions in the store."""

from __future__ import annotations

from fathom.kube.definitions.custom import kind_of_crd
from fathom.kube.definitions.registry import Registry
from fathom.model.body import Body
from fathom.model.objects import Obj, lookup

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class CustomKinds:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def observe(
        self, resource: str, key: str, body: Body | None, previous: Body | None, revision: int
    ) -> None:
        """`key` is the definition's name, which is the resource it defines."""
        if resource != DEFINITIONS:
            return
        if body is None:
            self._registry.remove_custom(key)
        elif is_established(body.obj):
            self._registry.add_custom(kind_of_crd(body.obj))


def is_established(definition: Obj) -> bool:
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in lookup(definition, "status", "conditions") or ()
    )
