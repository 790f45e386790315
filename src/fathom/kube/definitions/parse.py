"""Parses a request's bytes into a JSON value, and refuses values that are too deep or too large.

Three readers. `plain` is C-speed. `noted` is slower and remembers fields that were given twice. `from_yaml`
builds from YAML's events, so that nothing in a document can make it recurse or grow without bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import msgspec

from fathom.kube.definitions import scalars

_decode = msgspec.json.Decoder().decode

# The slow path takes about five microseconds a value, and blocks all other requests. The largest real objects
# have some tens of thousands.
VALUES_MAX: Final = 100_000
TOO_MANY: Final = f"more than {VALUES_MAX} values"
# kube-apiserver's limit too.
DUPLICATES_MAX: Final = 100
PATH_CHARS_MAX: Final = 1024
# A string may end with the document, so that no byte is matched twice.
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)


class MalformedBody(ValueError):
    """The bytes are no valid document. The message says where."""


class Noted(dict[str, Any]):
    """A JSON object that remembers which of its fields were given more than once."""

    __slots__ = ("duplicates",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.duplicates: tuple[str, ...] = ()
        if len(self) != len(pairs):
            seen: set[str] = set()
            twice = {name: None for name, _ in pairs if name in seen or seen.add(name)}  # type: ignore[func-returns-value]  # adding while asking
            self.duplicates = tuple(twice)


def plain(raw: bytes) -> Any:
    try:
        read = scalars.free(_decode(raw))
    except RecursionError:
        raise MalformedBody(scalars.TOO_DEEP) from None
    except UnicodeDecodeError as error:
        raise MalformedBody(f"invalid UTF-8 in a string: {error.reason}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise MalformedBody(str(error)) from None
    if too_many(raw):
        raise MalformedBody(TOO_MANY)
    return read


def too_many(raw: bytes) -> bool:
    """Whether the slow path would take too long for a document."""
    return raw.count(b",") > VALUES_MAX and _outside_strings(raw).count(b",") > VALUES_MAX


def _outside_strings(raw: bytes) -> bytes:
    """The document without its strings: a file of commas in a ConfigMap is one value."""
    return _STRING.sub(b"", raw)


def noted(raw: bytes) -> Any:
    """With `Noted` for objects. Only for bytes that msgspec has accepted: it is stricter than `json`."""
    return json.loads(raw, object_pairs_hook=Noted, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise MalformedBody(f"{name} is not a JSON number")


def duplicates(value: Any) -> Iterator[str]:
    """The paths of fields that were given twice: 'spec.containers[0].image'. Of very many, the first."""
    waiting: list[tuple[str, Any]] = [("", value)]
    duplicates_left = DUPLICATES_MAX
    while waiting and duplicates_left > 0:
        path, node = waiting.pop()
        if isinstance(node, Noted):
            yield from (join(path, name) for name in node.duplicates[:duplicates_left])
            duplicates_left -= len(node.duplicates)
        if isinstance(node, dict):
            waiting.extend((join(path, name), inner) for name, inner in reversed(node.items()))
        elif isinstance(node, list):
            waiting.extend((f"{path}[{at}]", node[at]) for at in reversed(range(len(node))))


def join(path: str, name: str) -> str:
    """Every value gets a path, reported or not: its length is limited however long names are."""
    joined = f"{path}.{name}" if path else name
    return joined if len(joined) <= PATH_CHARS_MAX else f"{joined[:PATH_CHARS_MAX]}..."
