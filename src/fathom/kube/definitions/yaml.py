"""Reads YAML bodies from the parser's events.

No composer and no constructor of PyYAML is used: they recurse, build Python objects, turn dates into dates
and let a few aliases stand for billions of nodes. The types of plain scalars are those of Kubernetes' reader:
YAML 1.1 without timestamps and base-60 numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, cast

import yaml

from fathom.kube.definitions import scalars
from fathom.kube.definitions.parse import MalformedBody, Noted

# Reading an event takes some ten microseconds, and blocks all other requests. JSON may have more.
EVENTS_MAX: Final = 50_000
# How much larger than its text a document may get by its aliases, in characters and nodes.
ALIASED_MAX: Final = 100_000

_TRUE: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_is_int = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]*|[1-9][0-9_]*)").fullmatch
_is_float = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?").fullmatch
_is_special = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)").fullmatch

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING_TAG: Final = "tag:yaml.org,2002:str"


def from_yaml(raw: bytes) -> Any:
    """The one document in a YAML stream."""
    try:
        return scalars.free(_Reader(size_max=2 * len(raw) + ALIASED_MAX).read(_events(raw)))
    except yaml.YAMLError as error:
        raise MalformedBody(f"error converting YAML to JSON: {_one_line(error)}") from None
    except RecursionError:
        raise MalformedBody(scalars.TOO_DEEP) from None
    except ValueError as error:
        raise error if isinstance(error, MalformedBody) else MalformedBody(str(error)) from None


def _events(raw: bytes) -> Iterator[yaml.Event]:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedBody(f"invalid UTF-8: {error.reason}") from None
    return cast("Iterator[yaml.Event]", yaml.parse(text, Loader=_Loader))


def _one_line(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return f"yaml: {' '.join(str(error).split())}"
    return f"yaml: line {mark.line + 1}: {problem}"


class _Open:
    """A sequence or mapping whose end has not been read yet."""

    __slots__ = ("anchor", "items", "key", "mapping", "size")

    def __init__(self, *, mapping: bool, anchor: str | None) -> None:
        self.mapping = mapping
        self.anchor = anchor
        self.items: list[Any] = []  # Of a mapping: (key, value) pairs.
        self.key: str | None = None  # Of a mapping: the key whose value comes next.
        self.size = 1  # Nodes and characters inside, aliases expanded.


class _Reader:
    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._document: list[Any] = []

    def read(self, events: Iterator[yaml.Event]) -> Any:
        documents = 0
        for count, event in enumerate(events):
            if count > EVENTS_MAX:
                raise MalformedBody(f"more than {EVENTS_MAX} values: send it as JSON")
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise MalformedBody("a request must contain one YAML document, not several")
            self._take(event)
        return self._document[0] if self._document else None

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._stack) >= scalars.DEPTH_MAX:
                raise MalformedBody(scalars.TOO_DEEP)
            self._stack.append(_Open(mapping=isinstance(event, yaml.MappingStartEvent), anchor=event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(self._stack.pop())

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        value = _typed(event)
        size = 1 + len(event.value)
        if event.anchor:
            self._anchors[event.anchor] = (value, size)
        self._put(value, size)

    def _alias(self, event: yaml.AliasEvent) -> None:
        # An anchor is known only once its node has ended, so nothing can contain itself.
        if event.anchor not in self._anchors:
            raise MalformedBody(f"yaml: unknown anchor '{event.anchor}' referenced")
        self._put(*self._anchors[event.anchor])

    def _close(self, ended: _Open) -> None:
        value: Any = Noted(_merged(ended.items)) if ended.mapping else ended.items
        if ended.anchor:
            self._anchors[ended.anchor] = (value, ended.size)
        self._put(value, ended.size)

    def _put(self, value: Any, size: int) -> None:
        if not self._stack:
            self._document.append(value)
            return
        parent = self._stack[-1]
        parent.size += size
        if parent.size > self._size_max:
            raise MalformedBody("yaml: document contains excessive aliasing")
        if not parent.mapping:
            parent.items.append(value)
        elif parent.key is None:
            parent.key = _key(value)
        else:
            parent.items.append((parent.key, value))
            parent.key = None


def _key(value: Any) -> str:
    """Keys of JSON are strings; other scalars are converted as by Kubernetes' reader."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise MalformedBody(f"yaml: a key must be a string, not {scalars.json_kind(value)}")


def _merged(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Expand `<<: *defaults`; the mapping's own fields win."""
    if not any(name == "<<" for name, _ in pairs):
        return pairs
    own = [(name, value) for name, value in pairs if name != "<<"]
    names = {name for name, _ in own}
    for _, source in (pair for pair in pairs if pair[0] == "<<"):
        for mapping in source if isinstance(source, list) else [source]:
            if not isinstance(mapping, dict):
                raise MalformedBody("yaml: map merge requires map or sequence of maps as the value")
            own.extend((name, value) for name, value in mapping.items() if name not in names)
            names.update(mapping)
    return own


def _typed(event: yaml.ScalarEvent) -> Any:
    if event.tag not in {None, "!", _STRING_TAG}:
        return _tagged(event.tag, event.value)
    if event.style or not event.implicit[0] or event.tag is not None:
        return event.value
    return _plain(event.value)


def _plain(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _is_int(text):
        return _integer(text.replace("_", ""))
    if _is_float(text):
        return _finite(text)
    if _is_special(text):
        raise MalformedBody(f"yaml: {text} cannot be represented in JSON")
    return text


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if len(digits) > 70:
        raise MalformedBody("yaml: number does not fit into 64 bits")
    prefix = digits[:2]
    base = {"0b": 2, "0x": 16, "0o": 8}.get(prefix, 0)
    if base:
        return sign * int(digits[2:] or "0", base)
    return sign * int(digits, 8 if digits[0] == "0" and len(digits) > 1 else 10)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MalformedBody(f"yaml: number {text} is out of range")
    return value


def _tagged(tag: str, text: str) -> Any:
    """The explicit tags that have a meaning in JSON."""
    kind = tag.rpartition(":")[2] if tag.startswith("tag:yaml.org,2002:") else ""
    if kind == "binary":
        return scalars.blob(text)
    value = _plain(text)
    wanted = {"int": int, "float": (int, float), "bool": bool, "null": type(None), "timestamp": str}.get(kind)
    if wanted is None or not isinstance(value, wanted):  # type: ignore[arg-type]  # a mixed table of types
        raise MalformedBody(f"yaml: cannot decode {text!r} as {tag}")
    return value
