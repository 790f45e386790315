"""Equal parts of different objects kept once.

A thousand pods of one template differ in name, node and status; decoded, each would hold its own copy of the
containers, labels and tolerations. Compared with a sibling they fall together (figures: docs/benchmarks.md).

Python calls 1, 1.0 and True equal, so only what has a schema is compared: the metadata of any kind, and all
of Kubernetes' own kinds that have no free-form fields there.

Rejected: a table from encoded parts to decoded ones (three times as slow, and saves no more), going deeper
than two levels (more time, little memory), interning strings.
"""

from __future__ import annotations

from fathom.client.api import Resource
from fathom.model.objects import Obj, metadata

# How many families are remembered by one of their members. It keeps that member alive when it is gone.
FAMILIES_MAX = 4096

TYPED_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
FREE_FORM = frozenset({"customresourcedefinitions", "controllerrevisions"})


class Families:
    """The first object seen of each family: what has the same owner, or no owner and the same namespace."""

    def __init__(self, resource: Resource) -> None:
        self._sections = ("metadata", "spec", "status") if is_typed(resource) else ("metadata",)
        self._first: dict[str, Obj] = {}  # Oldest family first.

    def share(self, obj: Obj) -> None:
        """Let `obj`, which must be ours alone, use the parts of its sibling."""
        family = _family(obj)
        like = self._first.get(family)
        if like is None:
            if len(self._first) >= FAMILIES_MAX:
                del self._first[next(iter(self._first))]
            self._first[family] = obj
            return
        for name in self._sections:
            mine, theirs = obj.get(name), like.get(name)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                _use_parts(mine, theirs)


def is_typed(resource: Resource) -> bool:
    known = resource.group in TYPED_GROUPS or resource.group.endswith(".k8s.io")
    return known and resource.plural not in FREE_FORM


def _family(obj: Obj) -> str:
    meta = metadata(obj)
    owners = meta.get("ownerReferences")
    if isinstance(owners, list) and owners and isinstance(owners[0], dict):
        return str(owners[0].get("uid"))
    return str(meta.get("namespace"))


def _use_parts(mine: Obj, theirs: Obj) -> None:
    for field, value in mine.items():
        other = theirs.get(field)
        if other is not None and other == value:
            mine[field] = other
