"""The patch that `apply` sends: from what was declared before, what is declared now, and what is there.

Fields that are declared get their value; fields that were declared and are no longer are removed; all other
fields belong to others and stay. Without a schema the result is a JSON merge patch, in which lists are whole
values; with one it is a strategic merge patch, in which lists with a key merge item by item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fathom.kube.patch.schema import PatchSchema
from fathom.kube.patch.strategic import DELETE_FROM, DIRECTIVE, RETAIN_KEYS, SET_ORDER
from fathom.model.objects import Obj


def three_way_patch(declared_before: Obj, declared: Obj, current: Obj, schema: PatchSchema | None) -> Obj:
    """Empty if there is nothing to change."""
    return _of_object(declared_before, _without_nulls(declared), current, schema)


def _without_nulls(value: Any) -> Any:
    """A declared null is a field that is not declared."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _of_object(
    before: Mapping[str, Any], declared: Obj, current: Mapping[str, Any], schema: PatchSchema | None
) -> Obj:
    patch: Obj = {}
    for name, value in declared.items():
        there = current.get(name)
        if value != there:
            field = schema.field(name) if schema else None
            patch.update(_of_field(name, before.get(name), value, there, field))
    patch.update({name: None for name in before if name not in declared and current.get(name) is not None})
    if patch and schema is not None and schema.retains_keys:
        patch[RETAIN_KEYS] = sorted(declared)
    return patch


def _of_field(name: str, before: Any, declared: Any, current: Any, schema: PatchSchema | None) -> Obj:
    if isinstance(declared, dict) and isinstance(current, dict):
        if schema is not None and schema.strategy == "replace":
            return {name: {DIRECTIVE: "replace", **declared}}
        inner = _of_object(before if isinstance(before, dict) else {}, declared, current, schema)
        return {name: inner} if inner else {}
    if isinstance(declared, list) and isinstance(current, list) and schema and schema.strategy == "merge":
        declared_before = before if isinstance(before, list) else []
        if schema.merge_key:
            return _of_items(name, declared_before, declared, current, schema)
        return _of_values(name, declared_before, declared, current)
    return {name: declared}


def _of_values(name: str, before: Sequence[Any], declared: Sequence[Any], current: Sequence[Any]) -> Obj:
    """A list of plain values that is a set."""
    added = [value for value in declared if value not in current]
    removed = [value for value in before if value not in declared and value in current]
    patch: Obj = {name: added} if added else {}
    return {**patch, f"{DELETE_FROM}{name}": removed} if removed else patch


def _of_items(
    name: str, before: list[Any], declared: list[Any], current: list[Any], schema: PatchSchema
) -> Obj:
    """A list of objects with a key."""
    key = schema.merge_key
    by_key = [_by_key(items, key) for items in (before, declared, current)]
    if any(items is None for items in by_key):  # Items cannot be told apart: the list is one value.
        return {name: [{DIRECTIVE: "replace"}, *declared]}
    was, wanted, there = ({} if items is None else items for items in by_key)
    items = []
    for at, item in wanted.items():
        if at not in there:
            items.append(item)
        elif inner := _of_object(was.get(at, {}), item, there[at], schema):
            items.append({key: at, **inner})
    items += [{DIRECTIVE: "delete", key: at} for at in was if at not in wanted and at in there]
    in_order = [at for at in there if at in wanted] == [at for at in wanted if at in there]
    if not items and in_order:
        return {}
    order = {f"{SET_ORDER}{name}": [{key: at} for at in wanted]}
    return {**order, name: items} if items else order


def _by_key(items: Sequence[Any], key: str) -> dict[Any, Obj] | None:
    """None if two items have the same key, or one has none."""
    items_by_key: dict[Any, Obj] = {}
    for item in items:
        at = item.get(key) if isinstance(item, dict) else None
        if at is None or isinstance(at, dict | list) or at in items_by_key:
            return None
        items_by_key[at] = item
    return items_by_key
