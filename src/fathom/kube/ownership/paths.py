"""Sets of fields. A path is a tuple of elements in the words of managedFields: 'f:spec', 'k:{"name":"a"}'."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Path = tuple[str, ...]
Paths = frozenset[Path]

MEMBER = "."  # In a tree: the field itself belongs to the set, beside fields below it.
_KINDS = ("f:", "k:", "v:", "i:")
DEPTH_MAX = 24  # What is further inside is owned as a whole: nobody pays for very deep objects.


def field(name: str) -> str:
    return f"f:{name}"


def item(keys: dict[str, Any]) -> str:
    return "k:" + json.dumps(keys, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def value(plain: Any) -> str:
    return "v:" + json.dumps(plain, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def tree_of(paths: Iterable[Path]) -> dict[str, Any]:
    """As in `fieldsV1`."""
    tree: dict[str, Any] = {}
    # Longer paths come after the fields that they are inside of: those then get their mark.
    for path in sorted(paths):
        node = tree
        for at, element in enumerate(path):
            if element not in node:
                node[element] = {}
            elif not node[element] and at + 1 < len(path):
                node[element] = {MEMBER: {}}
            node = node[element]
    return tree


def paths_in(tree: Any) -> Paths:
    """The paths of a `fieldsV1`. Raises ValueError for what is none."""
    found: set[Path] = set()
    waiting: list[tuple[Path, Any]] = [((), tree)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, dict) or len(path) > DEPTH_MAX:
            raise ValueError("not a set of fields")
        if path and (not node or MEMBER in node):
            found.add(path)
        for element, below in node.items():
            if element == MEMBER:
                continue
            if not element.startswith(_KINDS):
                raise ValueError(f"not an element of a path: {element!r}")
            waiting.append(((*path, element), below))
    return frozenset(found)


def with_parents(paths: Iterable[Path]) -> set[Path]:
    """The paths, and all that they are inside of."""
    found: set[Path] = set()
    for path in paths:
        inside = path
        while inside and inside not in found:  # Those above one that was met have been met too.
            found.add(inside)
            inside = inside[:-1]
    return found


def text(path: Path) -> str:
    """As kube-apiserver writes it: `.spec.containers[name="a"].image`."""
    return "".join(map(_text, path))


def _text(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "i:":
        return f"[{rest}]"
    if kind == "v:":
        return f"[={rest}]"
    try:
        keys = json.loads(rest)
    except ValueError:
        return f"[{rest}]"
    return "[" + ",".join(f"{name}={json.dumps(key)}" for name, key in sorted(keys.items())) + "]"
