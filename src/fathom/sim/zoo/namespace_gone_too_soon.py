"""29. A namespace counts as empty when every object in it is being deleted: objects that a finalizer holds
stay behind in a namespace that no longer exists."""

from __future__ import annotations

from fathom.controllers.housekeeping import namespaces
from fathom.model.objects import Obj, is_deleting
from fathom.sim.zoo import put_back

SCENARIOS = ("owners-come-and-go",)
BREAKS = "only objects without owners are garbage-collected"

_right = namespaces.plan_namespace


def without_what_goes(namespace: Obj, contents: dict[str, list[Obj]]) -> namespaces.NamespaceCleanup:
    remaining = {name: objs for name, objs in contents.items() if not all(is_deleting(obj) for obj in objs)}
    return _right(namespace, remaining)


put_back(namespaces, "plan_namespace", without_what_goes)
