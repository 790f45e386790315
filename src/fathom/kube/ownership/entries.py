"""metadata.managedFields: read into owners, and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.kube.ownership import paths
from fathom.kube.ownership.owners import APPLY, UPDATE, Owned, Owner, Owners
from fathom.model.objects import Obj

_TYPE = "FieldsV1"


def read(entries: Sequence[Any]) -> Owners:
    """Raises ValueError for entries that are none."""
    owners: dict[Owner, Owned] = {}
    for entry in entries:
        owner, owned = _read(entry)
        known = owners.get(owner)
        owners[owner] = owned if known is None else Owned(known.fields | owned.fields, owned.time)
    return {owner: owned for owner, owned in owners.items() if owned.fields}


def _read(entry: Any) -> tuple[Owner, Owned]:
    if not isinstance(entry, dict) or entry.get("operation") not in {APPLY, UPDATE}:
        raise ValueError("not an entry of managedFields")
    if entry.get("fieldsType") != _TYPE or not entry.get("apiVersion"):
        raise ValueError("not an entry of managedFields with fields")
    owner = Owner(
        entry["operation"],
        str(entry.get("manager") or ""),
        str(entry["apiVersion"]),
        str(entry.get("subresource") or ""),
    )
    return owner, Owned(paths.paths_in(entry.get("fieldsV1") or {}), str(entry.get("time") or ""))


def written(owners: Owners) -> list[Obj]:
    """In Kubernetes' order: who applies first, then by time."""
    ordered = sorted(owners.items(), key=lambda pair: (pair[0].operation, pair[1].time, pair[0]))
    return [_written(owner, owned) for owner, owned in ordered]


def _written(owner: Owner, owned: Owned) -> Obj:
    entry: Obj = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": owner.api_version,
        "time": owned.time,
        "fieldsType": _TYPE,
        "fieldsV1": paths.tree_of(owned.fields),
        "subresource": owner.subresource,
    }
    return {word: value for word, value in entry.items() if value}


def is_reset(entries: Any) -> bool:
    """`[{}]`: the caller wants that nobody owns anything."""
    return isinstance(entries, list) and entries == [{}]
