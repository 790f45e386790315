"""Equal parts of different objects kept once, and parts that have not changed decoded once.

A thousand pods of one template differ in name, node and status; decoded, each would hold its own copy of the
containers, labels and tolerations. Compared with a sibling they fall together. And most events change an
object's status only: a spec whose bytes were seen before is not decoded again (figures: docs/benchmarks.md).

Python calls 1, 1.0 and True equal, so only what has a schema is compared as values: the metadata of any kind,
and all of Kubernetes' own kinds that have no free-form fields there. Bytes can be compared of any kind.

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

# How many families are remembered by one of their members. It keeps that member alive when it is gone.
FAMILIES_MAX = 4096

# Specs are remembered for as many objects as there are, and at least for so many.
SPECS_MIN = 1000

# A forger would need more tries than there will ever be events; chance, too.
DIGEST_BYTES = 20

TYPED_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
FREE_FORM = frozenset({"customresourcedefinitions", "controllerrevisions"})


class Sharing:
    """The parts of one kind's objects. `live` tells how many objects there are."""

    def __init__(self, resource: Resource, live: Callable[[], int]) -> None:
        self._live = live
        self._families = Families()
        self._sections = ("metadata", "spec", "status") if is_typed(resource) else ("metadata",)
        # Specs by the digest of their bytes, in two generations: what was not asked for in one is forgotten.
        self._specs: dict[bytes, Any] = {}
        self._older: dict[bytes, Any] = {}

    def assemble(self, fields: dict[str, msgspec.Raw]) -> Obj:
        """An object of its undecoded fields."""
        obj: Obj = {}
        is_known = False
        for name, raw in fields.items():
            if name == "spec":
                obj[name], is_known = self._spec(raw)
            else:
                obj[name] = decode_json(raw)
        # A spec that is known has been through this before; then most often the status is what has changed.
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
        if live and len(self._specs) >= max(SPECS_MIN, live):  # None yet: a first list is as long as it is.
            self._specs, self._older = {}, self._specs
        self._specs[digest] = spec
        return spec, is_known


class Families:
    """The first object seen of each family: what has the same owner, or no owner and the same namespace."""

    def __init__(self) -> None:
        self._first: dict[str, Obj] = {}  # Oldest family first.

    def share(self, obj: Obj, sections: tuple[str, ...]) -> None:
        family = _family(obj)
        if family is None:
            return
        like = self._first.get(family)
        if like is None:
            if len(self._first) >= FAMILIES_MAX:
                del self._first[next(iter(self._first))]
            self._first[family] = obj
            return
        for name in sections:
            mine, theirs = obj.get(name), like.get(name)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                _use_parts(mine, theirs)


def is_typed(resource: Resource) -> bool:
    known = resource.group in TYPED_GROUPS or resource.group.endswith(".k8s.io")
    return known and resource.plural not in FREE_FORM


def _family(obj: Obj) -> str | None:
    """None for what is no object of the cluster: a bookmark, an error."""
    meta = metadata(obj)
    if "uid" not in meta:
        return None
    owners = meta.get("ownerReferences")
    if isinstance(owners, list) and owners and isinstance(owners[0], dict):
        return str(owners[0].get("uid"))
    return str(meta.get("namespace"))


def _use_parts(mine: Obj, theirs: Obj) -> None:
    for field, value in mine.items():
        other = theirs.get(field)
        if other is not None and other == value:
            mine[field] = other
