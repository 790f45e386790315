"""What if: the same question about objects with some of them changed. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from fathom.explain.evidence import Evidence, Objects
from fathom.kube.patch.merge_patch import merge
from fathom.model.objects import Key, Obj, key_of, metadata
from fathom.model.well_known import UNSCHEDULABLE_TAINT


class ObjectPatch(msgspec.Struct, frozen=True):
    """A JSON merge patch of one object. An object that does not exist is made of it; None deletes it."""

    resource: str  # 'nodes', 'tenantquotas.fathom.dev'
    namespace: str
    name: str
    patch: Any

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class BadPatch(ValueError):
    """The text is no patch; the message is one line."""


# A kind as users write it -> its resource, and whether it has namespaces; None: there is no such kind.
FindResource = Callable[[str], tuple[str, bool] | None]


def read_patch(text: str, namespace: str, find: FindResource) -> ObjectPatch:
    """'node/node-1={"spec":{"unschedulable":false}}'. Raises BadPatch."""
    subject, equals, patch = text.partition("=")
    kind, slash, name = subject.partition("/")
    kind_found = find(kind) if equals and slash and name else None
    if kind_found is None:
        raise BadPatch(f"a change must read KIND/NAME=PATCH, not {text!r}")
    resource, namespaced = kind_found
    try:
        merge_patch = msgspec.json.decode(patch)
    except msgspec.DecodeError as error:
        raise BadPatch(f"the patch of {subject} is no JSON: {error}") from error
    return ObjectPatch(resource, namespace if namespaced else "", name, merge_patch)


class PatchedObjects:
    """The objects, as they would be with the patches."""

    def __init__(self, objects: Objects, patches: Sequence[ObjectPatch]) -> None:
        self._objects = objects
        self._changed: dict[str, dict[Key, Obj | None]] = {}
        for patch in patches:
            changed = self._changed.setdefault(patch.resource, {})
            changed[patch.key] = _patched(self.get(patch.resource, patch.key), patch)

    def get(self, resource: str, key: Key) -> Obj | None:
        changed = self._changed.get(resource, {})
        return changed[key] if key in changed else self._objects.get(resource, key)

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        changed: Mapping[Key, Obj | None] = self._changed.get(resource, {})
        kept = [obj for obj in self._objects.list(resource, namespace) if key_of(obj) not in changed]
        added = [
            obj for key, obj in changed.items() if obj is not None and namespace in {None, key.namespace}
        ]
        return sorted([*kept, *added], key=key_of) if added else kept

    def revision(self, resource: str) -> int:
        return self._objects.revision(resource)

    def last_change(self, resource: str) -> int:
        return self._objects.last_change(resource)


def _patched(obj: Obj | None, patch: ObjectPatch) -> Obj | None:
    if patch.patch is None:
        return None
    changed = merge(obj or {}, patch.patch)
    meta = {**metadata(changed), "name": patch.name}
    if patch.namespace:
        meta["namespace"] = patch.namespace
    whole = {**changed, "metadata": meta}
    return _with_cordon_taint(whole) if patch.resource == "nodes" else whole


def _with_cordon_taint(node: Obj) -> Obj:
    """A node with the taint of a cordon if it is cordoned, else without: the node controller would see to
    that a moment later, and the question is about what comes of the change."""
    spec = node.get("spec") or {}
    others = [taint for taint in spec.get("taints") or () if taint.get("key") != UNSCHEDULABLE_TAINT]
    own = [{"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}] if spec.get("unschedulable") else []
    return {**node, "spec": {**spec, "taints": [*others, *own]}}


def what_if(evidence: Evidence, patches: Sequence[ObjectPatch]) -> Evidence:
    """The evidence, as if the objects had been changed so. Records stay: they are what happened."""
    return msgspec.structs.replace(evidence, objects=PatchedObjects(evidence.objects, patches))
