"""The owners of an object's fields after an apply or an update, and who is in conflict."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.kube.ownership import paths
from fathom.kube.ownership.division import divided
from fathom.kube.ownership.merging import merged, without
from fathom.kube.ownership.paths import Path, Paths
from fathom.kube.ownership.shapes import Shape
from fathom.model.objects import Obj

APPLY, UPDATE = "Apply", "Update"
BEFORE = "before-first-apply"  # Owns what there was before anybody applied, as in Kubernetes.
ANCIENT = "ancient-changes"
UPDATERS_MAX = 10  # The oldest of more become one, ANCIENT.

# Of nobody: who the object is, and what only the server writes.
_META = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation")
NOBODYS: Paths = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {("f:metadata", paths.field(name)) for name in (*_META, "managedFields", "resourceVersion")}
)


class Owner(msgspec.Struct, frozen=True, order=True):
    operation: str
    manager: str
    api_version: str
    subresource: str = ""


class Owned(msgspec.Struct, frozen=True):
    fields: Paths
    time: str = ""  # When its fields last changed.


Owners = Mapping[Owner, Owned]


class Conflicts(Exception):
    """Others own fields that an apply would change."""

    def __init__(self, found: dict[Owner, Paths]) -> None:
        super().__init__("conflicts")
        self.found = found


def owners_before(shape: Shape, live: Obj, api_version: str) -> Owners:
    """Of an object that nobody has applied yet."""
    fields = fields_of(shape, live)
    return {Owner(UPDATE, BEFORE, api_version): Owned(fields)} if fields else {}


def applied(
    shape: Shape, live: Obj, config: Obj, owners: Owners, by: Owner, *, force: bool, now: str
) -> tuple[Obj, Owners]:
    """`live` with the fields of `config`, and without those that `by` applied before and nobody owns now.
    Raises Conflicts."""
    wanted, last = fields_of(shape, config), owners.get(by)
    others = {owner: owned for owner, owned in owners.items() if owner != by}
    kept = paths.with_parents([*wanted, *(path for owned in others.values() for path in owned.fields)])
    over = frozenset(last.fields - kept) if last is not None else frozenset()
    new: Obj = without(shape, merged(shape, live, config), paths.tree_of(over))
    changed, removed = _differences(shape, live, new)
    removed -= paths.with_parents(over) - over  # What is only empty now stays somebody's, as in Kubernetes.
    conflicts = {owner: found for owner, owned in others.items() if (found := owned.fields & changed)}
    if conflicts and not force:
        raise Conflicts(conflicts)
    same = last is not None and last.fields == wanted and not changed and not removed
    own = {by: Owned(wanted, last.time if last is not None and same else now)} if wanted else {}
    return new, {**_less(others, changed | removed), **own}


def updated(shape: Shape, old: Obj, new: Obj, owners: Owners, by: Owner, *, now: str) -> Owners:
    """Who changes a field owns it; who owned it does not any more."""
    changed, removed = _differences(shape, old, new)
    if not changed and not removed:
        return owners
    last = owners.get(by, Owned(frozenset()))
    fields = (last.fields - removed) | changed
    own = {by: Owned(fields, last.time if fields == last.fields else now)} if fields else {}
    others = {owner: owned for owner, owned in owners.items() if owner != by}
    return _capped({**_less(others, changed | removed), **own})


def fields_of(shape: Shape, obj: Obj) -> Paths:
    return frozenset(divided(shape, obj)) - NOBODYS


def _differences(shape: Shape, old: Obj, new: Obj) -> tuple[Paths, Paths]:
    """The paths that were added or changed, and those that are gone."""
    before, after = divided(shape, old, all_=True), divided(shape, new, all_=True)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    return frozenset(changed) - NOBODYS, frozenset(before.keys() - after.keys()) - NOBODYS


def _less(owners: Owners, fields: frozenset[Path]) -> dict[Owner, Owned]:
    left = {owner: Owned(owned.fields - fields, owned.time) for owner, owned in owners.items()}
    return {owner: owned for owner, owned in left.items() if owned.fields}


def _capped(owners: dict[Owner, Owned]) -> dict[Owner, Owned]:
    """Any number of programs may write an object; so many are told apart."""
    updaters = sorted(
        (owner for owner in owners if owner.operation == UPDATE),
        key=lambda owner: (owners[owner].time, owner),
    )
    over = updaters[: max(0, len(updaters) - UPDATERS_MAX)]
    for owner in over:
        ancient = Owner(UPDATE, ANCIENT, owner.api_version, owner.subresource)
        known, old = owners.get(ancient, Owned(frozenset())), owners.pop(owner)
        owners[ancient] = Owned(known.fields | old.fields, max(known.time, old.time))
    return owners
