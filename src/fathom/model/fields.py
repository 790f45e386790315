"""Which fields differ between two objects, as paths that people can read:

    spec.replicas    metadata.labels[app]    spec.containers[name=web].image    spec.tolerations[0]

Equal subtrees are skipped by identity or by one comparison in C, so the cost is that of what changed. The
answer is bounded and never leaves a change out: too many paths are replaced by their parents, in the end by
`*`, which stands for the whole object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from fathom.model.objects import Obj

PATHS_MAX = 64
EVERYTHING: Final = "*"

# A deeper path is less readable than its parent, and recursion must end somewhere.
DEPTH_MAX = 24

# Names that users choose can have any length. A longer path is replaced by its parent, a longer name by its
# beginning.
PATH_CHARS_MAX = 1024
NAME_CHARS_MAX = 320  # No label key is longer.

# The keys of list items, by the list's field name: the first key that all items have with different values.
# '' means that the items are plain values, each its own key. Items of other lists go by index.
LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "addresses": ("type", "ip"),
    "conditions": ("type",),
    "containerStatuses": ("name",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainerStatuses": ("name",),
    "ephemeralContainers": ("name",),
    "finalizers": ("",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainerStatuses": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "name", "port"),
    "readinessGates": ("conditionType",),
    "schedulingGates": ("name",),
    "secrets": ("name",),
    "steps": ("name",),
    "taints": ("key",),
    "versions": ("name",),
    "volumeClaimTemplates": ("name",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}

# Fields whose keys are chosen by users, not by the schema.
_MAPS = frozenset(
    {
        "allocatable",
        "annotations",
        "binaryData",
        "capacity",
        "data",
        "default",
        "defaultRequest",
        "hard",
        "labels",
        "limits",
        "matchLabels",
        "max",
        "maxLimitRequestRatio",
        "min",
        "nodeSelector",
        "properties",
        "requests",
        "stringData",
        "used",
    }
)

# The server writes these with every change, so they are left out.
_LEFT_OUT = frozenset({"metadata.resourceVersion", "metadata.managedFields"})

ABSENT: Final = object()
_NO_FIELDS: Final[Obj] = {}


def changed_paths(
    old: Obj | None,
    new: Obj | None,
    limit: int = PATHS_MAX,
    list_keys: Mapping[str, tuple[str, ...]] = LIST_KEYS,
) -> tuple[str, ...]:
    """The changed paths in the new object's field order, removed fields last. An absent object counts as
    empty."""
    return tuple(path for path, _, _ in changed_values(old, new, limit, list_keys))


def changed_values(
    old: Obj | None,
    new: Obj | None,
    limit: int = PATHS_MAX,
    list_keys: Mapping[str, tuple[str, ...]] = LIST_KEYS,
) -> list[tuple[str, Any, Any]]:
    """The changed paths, each with the value before and after; ABSENT where there is none."""
    for depth_max in (DEPTH_MAX, 2, 1):
        walk = _Walk(limit, depth_max, list_keys)
        walk.objects(old or {}, new or {}, "", "", 1)
        if len(walk.found) <= limit:
            return walk.found
    return [(EVERYTHING, old, new)]


class _Walk:
    """One pass, which ends early when there are more paths than wanted."""

    __slots__ = ("depth_max", "found", "limit", "list_keys")

    def __init__(self, limit: int, depth_max: int, list_keys: Mapping[str, tuple[str, ...]]) -> None:
        self.found: list[tuple[str, Any, Any]] = []
        self.limit = limit
        self.depth_max = depth_max
        self.list_keys = list_keys

    def objects(self, old: Obj, new: Obj, field: str, path: str, depth: int) -> None:
        names_are_free = field in _MAPS
        for name, value in new.items():
            before = old.get(name, ABSENT)
            if before is not value and before != value:
                self._field(before, value, name, _under(path, name, names_are_free), depth)
        for name in old:
            if name not in new:
                self._field(old[name], ABSENT, name, _under(path, name, names_are_free), depth)

    def _field(self, old: Any, new: Any, name: str, path: str, depth: int) -> None:
        if path in _LEFT_OUT or len(self.found) > self.limit:
            return
        if depth < self.depth_max and len(path) <= PATH_CHARS_MAX:
            # A map or struct that is added or removed is listed by its fields, so that the paths are the same
            # whether `labels` was absent or empty before.
            if type(new) is dict and (type(old) is dict or (old is ABSENT and new)):
                self.objects(old if type(old) is dict else _NO_FIELDS, new, name, path, depth + 1)
                return
            if type(old) is dict and new is ABSENT and old:
                self.objects(old, _NO_FIELDS, name, path, depth + 1)
                return
            if type(old) is list and type(new) is list:
                self._lists(old, new, name, path, depth)
                return
        self.found.append((path, old, new))

    def _lists(self, old: list[Any], new: list[Any], name: str, path: str, depth: int) -> None:
        for key in self.list_keys.get(name, ()):
            before, after = _keyed(old, key), _keyed(new, key)
            if before is not None and after is not None:
                self._keyed_lists(before, after, key, path, depth)
                return
        if not all(type(item) is dict for item in (*old, *new)):
            self.found.append((path, old, new))
            return
        for index in range(max(len(old), len(new))):
            was = old[index] if index < len(old) else ABSENT
            item = new[index] if index < len(new) else ABSENT
            if was is not item and was != item:
                self._item(was, item, f"{path}[{index}]", depth)

    def _keyed_lists(self, old: dict[Any, Any], new: dict[Any, Any], key: str, path: str, depth: int) -> None:
        paths_before = len(self.found)
        label = f"{path}[{key}=" if key else f"{path}["
        for item_key, item in new.items():
            before = old.get(item_key, ABSENT)
            if before is not item and before != item:
                self._item(before, item, f"{label}{_short(item_key)}]", depth)
        for item_key, item in old.items():
            if item_key not in new and len(self.found) <= self.limit:
                self.found.append((f"{label}{_short(item_key)}]", item, ABSENT))
        if len(self.found) == paths_before:
            self.found.append((path, list(old), list(new)))  # The same items in another order.

    def _item(self, old: Any, new: Any, path: str, depth: int) -> None:
        if len(self.found) > self.limit:
            return
        if type(old) is dict and type(new) is dict and depth < self.depth_max and len(path) <= PATH_CHARS_MAX:
            self.objects(old, new, "", path, depth + 1)
        else:
            self.found.append((path, old, new))


def _under(path: str, name: str, free: bool) -> str:
    if len(name) > NAME_CHARS_MAX:
        name = f"{name[:NAME_CHARS_MAX]}..."
    if free or not name.isidentifier():
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _short(key: Any) -> Any:
    return f"{key[:NAME_CHARS_MAX]}..." if isinstance(key, str) and len(key) > NAME_CHARS_MAX else key


def _keyed(items: list[Any], key: str) -> dict[Any, Any] | None:
    """The items by their key, or None where a key is missing, not plain or not unique."""
    try:
        by_key = {item[key]: item for item in items} if key else {item: item for item in items}
    except (KeyError, TypeError):
        return None
    return by_key if len(by_key) == len(items) and None not in by_key else None


_step = re.compile(r"\[(.*?)\](?=\.|\[|\Z)|\.?([^.\[]+)", re.DOTALL).finditer


@lru_cache(maxsize=4096)
def steps_of(path: str) -> tuple[str, ...]:
    """'a.b[c.d].e' as ('a', 'b', 'c.d', 'e'): `.x` and `[x]` name the same thing."""
    return tuple(match[1] if match[1] is not None else match[2] for match in _step(path))


def touches(changed: str, field: str) -> bool:
    """Whether a change at one path may have changed a field: the same, above or below it."""
    if EVERYTHING in {changed, field}:
        return True
    return _overlap(steps_of(changed), steps_of(field))


def touching(changed: Sequence[str], field: str) -> Iterator[str]:
    """The changed paths that touch the field."""
    return (path for path in changed if touches(path, field))


def _overlap(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]
