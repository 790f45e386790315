"""Keeps the registry's custom kinds in step with the CustomResourceDefinitions in the store."""

from __future__ import annotations

from fathom.api.admission.fences import FENCES
from fathom.api.ledger.accounts import BOOKS
from fathom.api.ledger.recount import MARKER_RESOURCE
from fathom.kube.definitions.custom import kinds_of_crd
from fathom.kube.definitions.registry import Registry
from fathom.model import causes
from fathom.model.body import Body
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.resource_names import DEFINITIONS

# In the store beside the API's objects: a definition of that name would open them to clients, and its end
# would remove them.
INTERNAL = frozenset({FENCES, *BOOKS, MARKER_RESOURCE})


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
        elif is_established(body.obj) and not self._registry.is_built_in_group(_group(body.obj)):
            self._registry.add_custom(kinds_of_crd(body.obj))


def ownership_causes(definition: Obj, registry: Registry) -> list[Cause]:
    """Of a definition of something that is the server's own."""
    group, name = _group(definition), metadata(definition).get("name")
    if name in INTERNAL or registry.is_built_in_group(group):
        return [causes.invalid("spec.group", group, "belongs to the API server itself")]
    return []


def _group(definition: Obj) -> str:
    return str(lookup(definition, "spec", "group") or "")


def is_established(definition: Obj) -> bool:
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in lookup(definition, "status", "conditions") or ()
    )
