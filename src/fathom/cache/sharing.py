"""Keeps equal parts of different objects in memory once, and decodes unchanged parts once.

A thousand pods of one template differ in name, node and status; decoded, each would hold its own copy of the
containers, labels and tolerations. A comparison with a sibling lets them share these parts. And most events
change an object's status only: a spec whose bytes were seen before is not decoded again (figures:
docs/benchmarks.md).

Python calls 1, 1.0 and True equal, so only parts with a schema are compared as values: the metadata of any
kind, and all of Kubernetes' own kinds that have no free-form fields there. Bytes can be compared for any
kind.

Rejected: a table from every encoded part to its decoded form (slower than comparing with a sibling, and saves
no more), going deeper than two levels (more time, little memory), interning strings.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from fathom.client.api import Resource
from fathom.model.body import decode_json
from fathom.model.objects import Obj, metadata

# How many families are remembered by one member each, which stays in memory even after its deletion.
FAMILIES_MAX = 4096

# As many specs are remembered as there are objects, and at least this many.
SPECS_MIN = 1000

# A collision, forged or by chance, would need more events than there will ever be.
DIGEST_BYTES = 20

TYPED_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
FREE_FORM = frozenset({"customresourcedefinitions", "controllerrevisions"})


class SharedParts:
    """The parts of one kind's objects. `live` returns how many objects there are."""

    def __init__(self, resource: Resource, live: Callable[[], int]) -> None:
        self._live = live
        self._families = Families()
        self._sections = ("metadata", "spec", "status") if is_typed(resource) else ("metadata",)
        # Specs by the digest of their bytes, in two generations: one not used for a generation is dropped.
        self._specs: dict[bytes, Any] = {}
        self._older: dict[bytes, Any] = {}

    def assemble(self, fields: dict[str, msgspec.Raw]) -> Obj:
        """An object from its undecoded fields."""
        obj: Obj = {}
        is_known = False
        for name, raw in fields.items():
            if name == "spec":
                obj[name], is_known = self._spec(raw)
            else:
                obj[name] = decode_json(raw)
        # A known spec was shared before; then most often only the status has changed.
        self._families.share(obj, ("metadata",) if is_known else self._sections)
        return obj

    def share(self, obj: Obj) -> None:
        """Let an object that was decoded elsewhere, and is ours alone, use the parts of its sibling."""
        self._families.share(obj, self._sections)

    def _spec(self, raw: msgspec.Raw) -> tuple[Any, bool]:
        digest = blake2b(raw, digest_size=DIGEST_BYTES).digest()
        spec = self._specs.get(digest)
        if spec is not None:
            return spec, True
        spec = self._older.get(digest)
        is_known = spec is not None
        if not is_known:
            spec = decode_json(raw)
        live = self._live()
        if live and len(self._specs) >= max(SPECS_MIN, live):  # 0 live: first list.
            self._specs, self._older = {}, self._specs
        self._specs[digest] = spec
        return spec, is_known


class Families:
    """The first object seen of each family: objects with the same owner, or none and the same namespace."""

    def __init__(self) -> None:
        self._first: dict[str, Obj] = {}  # Oldest family first.

    def share(self, obj: Obj, sections: tuple[str, ...]) -> None:
        family = _family(obj)
        if family is None:
            return
        sibling = self._first.get(family)
        if sibling is None:
            if len(self._first) >= FAMILIES_MAX:
                del self._first[next(iter(self._first))]
            self._first[family] = obj
            return
        for name in sections:
            mine, theirs = obj.get(name), sibling.get(name)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                _use_parts(mine, theirs)


def is_typed(resource: Resource) -> bool:
    has_schema = resource.group in TYPED_GROUPS or resource.group.endswith(".k8s.io")
    return has_schema and resource.plural not in FREE_FORM


def _family(obj: Obj) -> str | None:
    """None for what is not stored in the cluster: a bookmark, an error."""
    meta = metadata(obj)
    if "uid" not in meta:
        return None
    owners = meta.get("ownerReferences")
    if isinstance(owners, list) and owners and isinstance(owners[0], dict):
        return str(owners[0].get("uid"))
    return str(meta.get("namespace"))


def _use_parts(mine: Obj, theirs: Obj) -> None:
    for field, value in mine.items():
        their_value = theirs.get(field)
        if their_value is not None and their_value == value:
            mine[field] = their_value
