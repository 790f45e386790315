"""kubectl's JSONPath: `{.items[*].metadata.name}`, `{range .items[*]}{.metadata.name}{"\\n"}{end}`. Pure.

text             is printed as it is                 {"\\t"}              text with escapes
{.a.b} {['a']}   a field                             {.a[0]} {.a[-1:]}   an item, a part of a list
{.a[*]} {.a.*}   all items or values                 {..name}            the field at any depth
{.a[?(@.b=="c")]}   items for which it holds: == != < <= > >=, or that have the field
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fathom.cli.problem import Problem

DEPTH_MAX = 100

_TOKEN = re.compile(
    r"""
      \.\.(?P<deep>[\w\-/]+|\*)
    | \.(?P<field>(?:[\w\-/]|\\.)+|\*)
    | \[(?P<index>-?\d+)\]
    | \[(?P<slice>-?\d*:-?\d*)\]
    | \[(?P<all>\*)\]
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \[\?\((?P<filter>.*?)\)\]
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<path>[^\s=!<>]*)\s*(?:(?P<is>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*")
_EXPRESSION = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*)\}""")

_COMPARED = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


class _Range(msgspec.Struct, frozen=True):
    path: str
    parts: tuple[Any, ...]  # str: text; _Range; _Value.


class _Value(msgspec.Struct, frozen=True):
    path: str


def printed(template: str, document: Any) -> str:
    """The template with its expressions replaced by values. Raises Problem."""
    whole = template if "{" in template else f"{{{template if template[:1] in '.[$@' else f'.{template}'}}}"
    parts, rest = _parsed(_pieces(whole), nested=False)
    assert not rest
    return "".join(_shown(parts, document))


def values(path: str, document: Any) -> list[Any]:
    """What a path leads to; nothing where a field is missing. Raises Problem."""
    at, matches = 0, [document]
    path = path.strip().removeprefix("$").removeprefix("@")
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            raise Problem(f"JSONPath: {path[at:]!r} is not understood")
        matches = [value for each in matches for value in _step(token, each)]
        at = token.end()
    return matches


def _step(token: re.Match[str], value: Any) -> Iterator[Any]:
    kind = token.lastgroup if token.lastgroup != "quote" else "quoted"
    word = token.group(kind or "")
    if kind == "deep":
        yield from _everywhere(value, word, DEPTH_MAX)
    elif kind in {"field", "quoted"}:
        name = re.sub(r"\\(.)", r"\1", word) if kind == "field" else word
        if kind == "field" and name == "*":
            yield from _inside(value)
        elif isinstance(value, dict) and name in value:
            yield value[name]
    elif kind == "all":
        yield from _inside(value)
    elif kind == "filter":
        yield from (item for item in _inside(value) if _holds(word, item))
    elif isinstance(value, list):
        if kind == "slice":
            first, _, last = word.partition(":")
            yield from value[int(first) if first else None : int(last) if last else None]
        elif -len(value) <= int(word) < len(value):
            yield value[int(word)]


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everywhere(value: Any, name: str, depth: int) -> Iterator[Any]:
    if not depth:
        return
    if isinstance(value, dict) and (name == "*" or name in value):
        yield from value.values() if name == "*" else (value[name],)
    for inner in _inside(value):
        yield from _everywhere(inner, name, depth - 1)


def _holds(condition: str, item: Any) -> bool:
    parsed = _FILTER.fullmatch(condition)
    if parsed is None:
        raise Problem(f"JSONPath: the condition {condition!r} is not understood")
    matches = values(parsed["path"], item)
    if parsed["is"] is None:
        return bool(matches)
    wanted = _literal(parsed["value"])
    try:
        return any(bool(_COMPARED[parsed["is"]](value, wanted)) for value in matches)
    except TypeError:
        return False


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise Problem(f"JSONPath: {text!r} must be a number or a text in quotes") from None


def _pieces(template: str) -> list[str]:
    """Texts and expressions in turn, beginning with a text."""
    pieces = _EXPRESSION.split(template)
    for between in pieces[::2]:
        if "{" in between or "}" in between:
            raise Problem(f"JSONPath: a brace in {template!r} has no partner")
    return pieces


def _parsed(pieces: Sequence[str], *, nested: bool) -> tuple[tuple[Any, ...], Sequence[str]]:
    """The parts up to the end of this range, and what follows it."""
    parts: list[Any] = [pieces[0]]
    rest = pieces[1:]
    while rest:
        expression = rest[0].strip()
        if expression == "end":
            if not nested:
                raise Problem("JSONPath: {end} without {range}")
            return tuple(parts), rest[1:]
        if expression.startswith("range "):
            inner, after = _parsed(rest[1:], nested=True)
            parts.append(_Range(expression.removeprefix("range "), inner))
            parts.append(after[0])
            rest = after[1:]
            continue
        parts.append(_text_or_path(expression))
        parts.append(rest[1])
        rest = rest[2:]
    if nested:
        raise Problem("JSONPath: {range} without {end}")
    return tuple(parts), ()


def _text_or_path(expression: str) -> str | _Value:
    if expression[:1] in {'"', "'"}:
        text = expression if expression[0] == '"' else f'"{expression[1:-1]}"'
        return str(_literal(text))
    return _Value(expression)


def _shown(parts: Sequence[Any], document: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            for item in values(part.path, document):
                yield from _shown(part.parts, item)
        else:
            yield " ".join(map(text, values(part.path, document)))


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
