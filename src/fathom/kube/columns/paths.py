"""JSONPath, as printer columns use it, compiled once into steps.

    .spec.replicas   .metadata.labels.app\\.kubernetes\\.io/name   .metadata.annotations['a.b/c']
    .spec.ports[0].port   .items[-1]   .items[0:2]   .spec.hosts[*]   ..name
    .status.conditions[?(@.type=="Ready")].status

A path without a match finds nothing: that is not an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterator[Any]]

_fields = re.compile(r"(?:\.[A-Za-z0-9_-]+)+").fullmatch
_field = re.compile(r"\.((?:[^.\[\\]|\\.)+)").match
_quoted = re.compile(r"\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\]").match
_index = re.compile(r"\[(-?[0-9]{1,9})\]").match
_slice = re.compile(r"\[(-?[0-9]{1,9})?:(-?[0-9]{1,9})?(?::(-?[0-9]{1,9})?)?\]").match
_filter = re.compile(r"\[\?\(\s*@([^\s=!<>]+?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\)\]").match
_literal = re.compile(r"'([^']*)'|\"([^\"]*)\"|(-?[0-9]{1,18}(?:\.[0-9]{1,18})?)|(true|false)").fullmatch

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    ">": lambda left, right: bool(left > right),
    "<=": lambda left, right: bool(left <= right),
    ">=": lambda left, right: bool(left >= right),
}
_DEPTH_MAX = 64
_LENGTH_MAX = 1024  # No column needs more, and the patterns above look ahead.


class Path:
    __slots__ = ("_names", "_steps")

    def __init__(self, steps: tuple[Step, ...], names: tuple[str, ...] | None = None) -> None:
        self._steps = steps
        self._names = names  # Of a path that has only fields, as most do: it is followed directly.

    def first(self, obj: Any) -> Any:
        """The first value that the path finds; None where it finds none."""
        if self._names is None:
            return next(self.find(obj), None)
        for name in self._names:
            if not isinstance(obj, dict):
                return None
            obj = obj.get(name)
        return obj

    def find(self, obj: Any) -> Iterator[Any]:
        values: Iterator[Any] = iter((obj,))
        for step in self._steps:
            values = _apply_step(step, values)
        return values


def _apply_step(step: Step, values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        yield from step(value)


# A cache of a pure function: the columns of a cluster's kinds are a few hundred.
@lru_cache(maxsize=1024)
def parse_path(text: str) -> Path:
    """Raises ValueError for an invalid or unsupported path."""
    inner = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    # Each recursion multiplies the number of visited values by the size of the object: one is allowed.
    if len(inner) > _LENGTH_MAX or inner.count("..") > 1 or "..." in inner:
        raise ValueError(
            f"unrecognized JSONPath of {len(inner)} characters: "
            f"at most {_LENGTH_MAX} characters and one '..' are allowed"
        )
    if inner and inner[0] not in ".[":
        inner = f".{inner}"
    if plain := _fields(inner):
        names = tuple(plain[0].split(".")[1:])
        return Path(tuple(_field_step(name) for name in names), names)
    steps: list[Step] = []
    at = 0
    while at < len(inner):
        step, end = _parse_step(inner, at, text)
        steps.append(step)
        at = end
    return Path(tuple(steps))


def _parse_step(text: str, at: int, full_path: str) -> tuple[Step, int]:
    if text.startswith("..", at):
        return _descendants, at + 1 if text[at + 2 : at + 3] not in {"", "["} else at + 2
    if text.startswith((".*", "[*]"), at):
        return _children, at + (2 if text[at] == "." else 3)
    if text[at] == "." and at + 1 == len(text):
        return _itself, at + 1
    if match := _field(text, at):
        return _field_step(_unescaped(match[1])), match.end()
    if match := _quoted(text, at):
        return _field_step(_unescaped(match[1] if match[1] is not None else match[2])), match.end()
    if match := _index(text, at):
        return _index_step(int(match[1])), match.end()
    if match := _slice(text, at):
        return _slice_step(match.groups()), match.end()
    if match := _filter(text, at):
        return _filter_step(*match.groups()), match.end()
    raise ValueError(f"unrecognized JSONPath {full_path!r} at {text[at:]!r}")


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _itself(value: Any) -> Iterator[Any]:
    yield value


def _field_step(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index_step(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice_step(bounds: tuple[str | None, ...]) -> Step:
    first, last, stride = (int(bound) if bound else None for bound in bounds)
    if stride is not None and stride <= 0:
        raise ValueError("the step of a slice must be positive")

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[first:last:stride]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _descendants(value: Any) -> Iterator[Any]:
    """The value and everything below it, as deep as an object may be."""
    level = [value]
    for _ in range(_DEPTH_MAX):
        if not level:
            return
        yield from level
        level = [inner for container in level for inner in _children(container)]


def _filter_step(path: str, operator: str | None, text: str | None) -> Step:
    inner = parse_path(path)
    if operator is None or text is None:
        return lambda value: (item for item in _children(value) if inner.first(item) is not None)
    literal, compare = _parse_literal(text), _COMPARE[operator]

    def holds(item: Any) -> bool:
        value = inner.first(item)
        try:
            return value is not None and compare(value, literal)
        except TypeError:  # A string and a number cannot be compared.
            return False

    return lambda value: (item for item in _children(value) if holds(item))


def _parse_literal(text: str) -> Any:
    match = _literal(text)
    if match is None:
        raise ValueError(f"unrecognized literal {text!r}")
    single, double, number, flag = match.groups()
    if number is not None:
        return float(number) if "." in number else int(number)
    if flag is not None:
        return flag == "true"
    return single if single is not None else double
