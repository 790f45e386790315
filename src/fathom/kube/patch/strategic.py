"""Kubernetes' strategic merge patch: a merge patch in which some lists merge by key.

    null                             deletes a field
    $patch: replace | delete         in an object: only the patch's fields stay, or none
    {$patch: delete, name: x}        in a list: removes the item; {$patch: replace} replaces the list
    $retainKeys: [a, b]              deletes fields of the object that are not listed
    $deleteFromPrimitiveList/f: [x]  takes values out of the list f of plain values
    $setElementOrder/f: [...]        the order of the list f; items that it does not name keep their places

Recursion is bounded by the patch's depth, which was checked when the patch was read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from fathom.kube.patch.schema import PatchSchema
from fathom.model.causes import shown
from fathom.model.errors import bad_request
from fathom.model.objects import Obj

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList/"
SET_ORDER = "$setElementOrder/"

SHOWN_MAX = 300
# Fields and items in total. An object has at most a hundred thousand.
COPIED_MAX = 500_000

BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
BAD_PRIMITIVE_LIST = "invalid patch format of primitive list"
BAD_ORDER = "invalid patch format of $setElementOrder list"


class _Work:
    """Counts what a patch copies. A patch may name the same list item often, and it is merged each time."""

    def __init__(self) -> None:
        self.done = 0

    def count(self, entries: int) -> None:
        self.done += entries
        if self.done > COPIED_MAX:
            raise bad_request(
                "the patch merges the same list items too often: it copies more than "
                f"{COPIED_MAX} fields and items"
            )


def merge_strategically(current: Obj, patch: Obj, schema: PatchSchema | None) -> Obj:
    return _merge(current, patch, schema, _Work())


def _merge(current: Obj, patch: Obj, schema: PatchSchema | None, work: _Work) -> Obj:
    work.count(len(current) + len(patch))
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {
            name: _plain(value) for name, value in patch.items() if name != DIRECTIVE and value is not None
        }
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):  # A tuple: the directive may be anything, also unhashable.
        raise bad_request(f"unknown patch type: {_directive_text(directive)} in map: {_brief(patch)}")
    merged = _retained(current, patch)
    handled = {DIRECTIVE, RETAIN_KEYS}
    _set_orders(merged, patch, schema, handled, work)
    _delete_values(merged, patch, handled)
    for name, value in patch.items():
        if name not in handled:
            _merge_field(merged, name, value, schema.field(name) if schema else None, work)
    return merged


def _merge_field(merged: Obj, name: str, value: Any, schema: PatchSchema | None, work: _Work) -> None:
    if value is None:
        merged.pop(name, None)
        return
    strategy = schema.strategy if schema else ""
    current = merged.get(name)
    if isinstance(value, dict) and strategy != "replace":
        merged[name] = _merge(current if isinstance(current, dict) else {}, value, schema, work)
    elif isinstance(value, list) and schema is not None and strategy == "merge":
        merged[name] = _merge_list(current if isinstance(current, list) else [], value, schema, work)
    else:
        merged[name] = _plain(value)


def _plain(value: Any) -> Any:
    """A value without the nulls that stand for absent fields."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _retained(current: Obj, patch: Obj) -> Obj:
    if RETAIN_KEYS not in patch:
        return dict(current)
    kept = {name for name in _require_list(patch[RETAIN_KEYS], BAD_RETAIN_KEYS) if isinstance(name, str)}
    for name, value in patch.items():
        if value is not None and name not in kept and not name.startswith("$"):
            raise bad_request(BAD_RETAIN_KEYS)
    return {name: value for name, value in current.items() if name in kept}


def _delete_values(merged: Obj, patch: Obj, handled: set[str]) -> None:
    for directive in [name for name in patch if name.startswith(DELETE_FROM)]:
        handled.add(directive)
        name = _field_of(directive, DELETE_FROM)
        values = {_key(value, "") for value in _require_list(patch[directive], BAD_PRIMITIVE_LIST)}
        if isinstance(merged.get(name), list):
            merged[name] = [item for item in merged[name] if _key_or_none(item, "") not in values]


def _set_orders(merged: Obj, patch: Obj, schema: PatchSchema | None, handled: set[str], work: _Work) -> None:
    """Lists with a stated order, merged with their patches."""
    for directive in [name for name in patch if name.startswith(SET_ORDER)]:
        name = _field_of(directive, SET_ORDER)
        order = _require_list(patch[directive], BAD_ORDER)
        field = schema.field(name) if schema else None
        merge_key = field.merge_key if field else ""
        handled |= {directive, name}
        current = merged.get(name)
        if patch.get(name) is not None:
            _check_order(_require_list(patch[name], BAD_ORDER), order, merge_key)
            _merge_field(merged, name, patch[name], field, work)
        elif name in patch:
            merged.pop(name, None)
        if isinstance(merged.get(name), list):
            before = current if isinstance(current, list) else []
            merged[name] = _in_order(merged[name], order, before, merge_key)


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """The patch's items must be in the stated order."""
    positions = {_key(item, merge_key): at for at, item in enumerate(order)}
    wanted = [positions.get(_key(item, merge_key)) for item in patch if not _has_directive(item)]
    known = [at for at in wanted if at is not None]
    if len(known) != len(wanted) or known != sorted(known):
        raise bad_request(
            f"The order in patch list:\n{_brief(patch)}\n"
            f" doesn't match $setElementOrder list:\n{_brief(order)}\n"
        )


def _merge_list(current: list[Any], patch: list[Any], schema: PatchSchema, work: _Work) -> list[Any]:
    work.count(len(current) + len(patch))
    merge_key = schema.merge_key
    if not merge_key:
        return _in_order(_union(current, patch), patch, current, "")
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in patch):
        return [_plain(item) for item in patch if not _has_directive(item)]
    current = _without_deleted(current, patch, merge_key)
    additions = [item for item in patch if not _has_directive(item)]
    return _in_order(_merge_items(current, additions, schema, work), additions, current, merge_key)


def _union(current: list[Any], patch: list[Any]) -> list[Any]:
    return list({_key(item, ""): item for item in (*current, *patch)}.values())


def _merge_items(current: list[Any], patch: list[Any], schema: PatchSchema, work: _Work) -> list[Any]:
    """Items of the same key merge in place; the other items follow."""
    merged = list(current)
    places = _positions(current, schema.merge_key)
    for item in patch:
        at = places.setdefault(_key(item, schema.merge_key), len(merged))
        if at == len(merged):
            merged.append(_merge({}, item, schema, work))
        else:
            merged[at] = _merge(merged[at], item, schema, work)
    return merged


def _has_directive(item: Any) -> bool:
    return isinstance(item, dict) and DIRECTIVE in item


def _without_deleted(current: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    doomed = set()
    for item in filter(_has_directive, patch):
        directive = item[DIRECTIVE]
        if directive == "merge":
            raise bad_request("merging lists cannot yet be specified in the patch")
        if directive != "delete":
            raise bad_request(f"unknown patch type: {_directive_text(directive)} in map: {_brief(item)}")
        doomed.add(_key(item, merge_key))
    if not doomed:
        return current
    return [item for item in current if _key_or_none(item, merge_key) not in doomed]


def _in_order(
    merged: Sequence[Any], order: Sequence[Any], before: Sequence[Any], merge_key: str
) -> list[Any]:
    """Items that the patch names are in the patch's order; each other item comes before the first of them
    that it preceded before the patch. So a new item comes first, as in kube-apiserver."""
    keys = [_key_or_none(item, merge_key) for item in merged]
    order_at, before_at = _positions(order, merge_key), _positions(before, merge_key)
    named = sorted((at for at, key in enumerate(keys) if key in order_at), key=lambda at: order_at[keys[at]])
    unnamed = [at for at, key in enumerate(keys) if key not in order_at]
    ordered: list[Any] = []
    passed = 0
    for at in named:
        position = before_at.get(keys[at], -1)
        while passed < len(unnamed) and before_at.get(keys[unnamed[passed]], len(before)) < position:
            ordered.append(merged[unnamed[passed]])
            passed += 1
        ordered.append(merged[at])
    return ordered + [merged[at] for at in unnamed[passed:]]


def _positions(items: Sequence[Any], merge_key: str) -> dict[Hashable, int]:
    """The first position of each key."""
    return {_key_or_none(items[at], merge_key): at for at in reversed(range(len(items)))}


def _key(item: Any, merge_key: str) -> Hashable:
    """The identity of an item: its merge key, or itself where the list holds plain values."""
    key = _key_or_none(item, merge_key)
    if key is None and merge_key:
        raise bad_request(f"map: {_brief(item)} does not contain declared merge key: {merge_key}")
    if key is None:
        raise bad_request(f"a list of plain values cannot hold {_brief(item)}")
    return key


def _key_or_none(item: Any, merge_key: str) -> Hashable:
    key = item.get(merge_key) if merge_key and isinstance(item, dict) else item
    return None if isinstance(key, dict | list) or (merge_key and key is item) else key


def _require_list(value: Any, refusal: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(refusal)
    return value


def _field_of(directive: str, prefix: str) -> str:
    name = directive.removeprefix(prefix)
    if not name:
        raise bad_request(f"invalid directive: {directive} names no field")
    return name


def _directive_text(directive: Any) -> str:
    return directive if isinstance(directive, str) else _brief(directive)


def _brief(value: Any) -> str:
    """The beginning of a value: a patch may be megabytes long, an error message should not."""
    text = shown(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
