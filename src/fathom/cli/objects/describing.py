"""An object as an outline of words, as kubectl describes kinds that it does not know. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fathom.model.well_known import LAST_APPLIED

Obj = dict[str, Any]

INDENT = "  "
NONE = "<none>"
# Said above, or of no use to a reader.
LEFT_OUT = frozenset({"name", "namespace", "labels", "annotations", "managedFields", "selfLink"})
# Maps whose keys users choose: they are no words.
MAPS = frozenset(
    {
        "labels",
        "annotations",
        "matchLabels",
        "selector",
        "nodeSelector",
        "limits",
        "requests",
        "capacity",
        "allocatable",
        "hard",
        "used",
        "data",
        "binaryData",
        "stringData",
    }
)
VALUE_CHARS_MAX = 140
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")


def described(obj: Obj) -> list[str]:
    """Everything but Events."""
    meta = obj.get("metadata") or {}
    annotations = {
        name: value for name, value in (meta.get("annotations") or {}).items() if name != LAST_APPLIED
    }
    heads = [("Name", [str(meta.get("name") or "")])]
    if meta.get("namespace"):
        heads.append(("Namespace", [str(meta["namespace"])]))
    heads.append(("Labels", _pairs(meta.get("labels") or {}, "=")))
    heads.append(("Annotations", _pairs(annotations, ": ")))
    heads.append(("API Version", [str(obj.get("apiVersion") or "")]))
    heads.append(("Kind", [str(obj.get("kind") or "")]))
    width = max(len(name) for name, _ in heads) + 3
    lines = []
    for name, values in heads:
        lines.append(f"{f'{name}:':<{width}}{values[0]}")
        lines += [f"{'':<{width}}{value}" for value in values[1:]]
    rest = {name: value for name, value in obj.items() if name not in {"apiVersion", "kind"}}
    rest["metadata"] = {name: value for name, value in meta.items() if name not in LEFT_OUT}
    return [*lines, *outline(rest)]


def _pairs(values: Mapping[str, Any], between: str) -> list[str]:
    return [f"{name}{between}{values[name]}" for name in sorted(values)] or [NONE]


def words(name: str) -> str:
    """'observedGeneration' -> 'Observed Generation'. Names that are no such words stay: 'app.io/x'."""
    if not re.fullmatch(r"[A-Za-z0-9]+", name):
        return name
    return " ".join(part[:1].upper() + part[1:] for part in _WORDS.findall(name))


def outline(value: Any, depth: int = 0, *, named: Callable[[str], str] = words) -> Iterator[str]:
    """Fields as words, a line each, what is inside them further in."""
    pad = INDENT * depth
    if isinstance(value, dict):
        width = max((len(named(name)) for name, inner in value.items() if _is_plain(inner)), default=0) + 3
        for name, inner in value.items():
            if _is_plain(inner):
                yield f"{pad}{f'{named(name)}:':<{width}}{_text(inner)}".rstrip()
            elif inner:
                yield f"{pad}{named(name)}:"
                yield from outline(inner, depth + 1, named=str if name in MAPS else words)
    elif isinstance(value, list):
        for item in value:
            if _is_plain(item):
                yield f"{pad}{_text(item)}"
            else:
                yield from _item(item, depth)


def _item(item: Any, depth: int) -> Iterator[str]:
    """An item of a list: a dash before its first field."""
    lines = list(outline(item, depth + 1))
    if lines:
        pad = INDENT * depth
        yield f"{pad}- {lines[0][len(pad) + len(INDENT) :]}"
        yield from lines[1:]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    shown = one_line(str(value))
    return shown if len(shown) <= VALUE_CHARS_MAX else f"{shown[:VALUE_CHARS_MAX]}..."


def one_line(value: Any) -> str:
    return " ".join(str(value or "").split())
