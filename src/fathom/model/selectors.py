"""Label and field selectors: parsed once, matched many times.

    app=web,tier in (a,b),!old      the string form, in queries and in Scale objects
    matchLabels, matchExpressions   the object form, in workloads
    metadata.name=x,status.phase!=Running    fields

A selector that cannot be parsed raises ValueError with kube-apiserver's message; the edge makes it a 400.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from fathom.model.causes import shown
from fathom.model.formats import label_value, qualified_name

# As Selector.String() prints them; the first three all mean equality with one value.
EQUALS, DOUBLE_EQUALS, IN = "=", "==", "in"
NOT_EQUALS, NOT_IN = "!=", "notin"
EXISTS, MISSING = "exists", "!"
GREATER, LESS = "gt", "lt"

_OBJECT_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": MISSING}
# Of node affinity, which has two more than a label selector.
NODE_OPERATORS = {**_OBJECT_OPERATORS, "Gt": GREATER, "Lt": LESS}
_SYMBOLS = {"=": EQUALS, "==": DOUBLE_EQUALS, "!=": NOT_EQUALS, ">": GREATER, "<": LESS}
_PRINTED = {GREATER: ">", LESS: "<"}
_LISTS_VALUES = frozenset({IN, NOT_IN})
_EXCLUDES = frozenset({NOT_EQUALS, NOT_IN})

# Of a selector in a query. Each requirement is checked on every object that is looked at. The longest seen in
# use name some hundreds of values.
TEXT_CHARS_MAX = 32 * 1024
REQUIREMENTS_MAX = 256
VALUES_MAX = 4096
_FEW_VALUES = 8

_token = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+|\Z)").match
_NUMBER = re.compile(r"[+-]?[0-9]+").fullmatch
_NUMBER_MIN, _NUMBER_MAX = -(2**63), 2**63 - 1


class Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()  # Sorted, each once.

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in _EXCLUDES:
            return value is None or not self._lists(value)
        if self.operator == MISSING:
            return value is None
        if value is None or self.operator == EXISTS:
            return value is not None
        if self.operator in {GREATER, LESS}:
            return _compares(value, self.operator, self.values[0])
        return self._lists(value)

    def _lists(self, value: str) -> bool:
        values = self.values
        if len(values) <= _FEW_VALUES:
            return value in values
        at = bisect_left(values, value)
        return at < len(values) and values[at] == value

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == MISSING:
            return f"!{self.key}"
        if self.operator in _LISTS_VALUES:
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        return f"{self.key}{_PRINTED.get(self.operator, self.operator)}{self.values[0]}"


class LabelSelector(msgspec.Struct, frozen=True):
    """All requirements must hold. Those for one exact value are kept apart: they are the most frequent, and
    cost one dictionary look-up each."""

    exact: tuple[tuple[str, str], ...] = ()
    others: tuple[Requirement, ...] = ()
    requirements: tuple[Requirement, ...] = ()  # All of them, in key order: the printed form.
    nothing: bool = False  # Matches no object at all: the meaning of an absent selector in some specs.

    @classmethod
    def of(cls, requirements: list[Requirement]) -> LabelSelector:
        ordered = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        exact = tuple(
            (requirement.key, requirement.values[0]) for requirement in ordered if _is_exact(requirement)
        )
        return cls(
            exact, tuple(requirement for requirement in ordered if not _is_exact(requirement)), ordered
        )

    @classmethod
    def from_object(cls, selector: Mapping[str, Any] | None) -> LabelSelector:
        """From matchLabels and matchExpressions. None selects nothing, {} everything."""
        if selector is None:
            return NOTHING
        return cls.of([*_match_labels(selector), *_match_expressions(selector)])

    def matches(self, labels: Mapping[str, str]) -> bool:
        for key, value in self.exact:
            if labels.get(key) != value:
                return False
        for requirement in self.others:
            if not requirement.matches(labels):
                return False
        return not self.nothing

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


NOTHING = LabelSelector(nothing=True)


def _is_exact(requirement: Requirement) -> bool:
    return requirement.operator in {EQUALS, DOUBLE_EQUALS, IN} and len(requirement.values) == 1


def _compares(value: str, operator: str, limit: str) -> bool:
    number = _int64(value)
    if number is None:
        return False
    return number > int(limit) if operator == GREATER else number < int(limit)


def _int64(text: str) -> int | None:
    # 20 characters hold every int64; longer digits would only cost time.
    if len(text) > 20 or not _NUMBER(text):
        return None
    number = int(text)
    return number if _NUMBER_MIN <= number <= _NUMBER_MAX else None


def requirement_of(key: str, operator: str, values: list[str]) -> Requirement:
    """A checked requirement."""
    _check_key(key, "key")
    chosen = tuple(sorted(set(values)))
    if operator in _LISTS_VALUES and not chosen:
        raise ValueError("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in {EXISTS, MISSING} and chosen:
        raise ValueError(
            f"values: Invalid value: {shown(list(chosen))}: "
            "values set must be empty for exists and does not exist"
        )
    if operator in {GREATER, LESS} and any(_int64(value) is None for value in chosen):
        raise ValueError(
            f"values[0]: Invalid value: {shown(chosen[0])}: "
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for index, value in enumerate(chosen):
        if reasons := label_value(value):
            raise ValueError(f"values[{index}][{key}]: Invalid value: {shown(value)}: {'; '.join(reasons)}")
    return Requirement(key, operator, chosen)


def _check_key(key: str, path: str) -> None:
    if reasons := qualified_name(key):
        raise ValueError(f"{path}: Invalid value: {shown(key)}: {'; '.join(reasons)}")


def _match_labels(selector: Mapping[str, Any]) -> Iterator[Requirement]:
    for key, value in (selector.get("matchLabels") or {}).items():
        yield requirement_of(str(key), EQUALS, [str(value)])


def _match_expressions(selector: Mapping[str, Any]) -> Iterator[Requirement]:
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator"))
        if operator is None:
            raise ValueError(f"{shown(expression.get('operator'))} is not a valid label selector operator")
        values = [str(value) for value in expression.get("values") or ()]
        yield requirement_of(str(expression.get("key") or ""), operator, values)


def parse_label_selector(text: str) -> LabelSelector:
    _check_length(text)
    return LabelSelector.of(_Reader(text).requirements())


class _Reader:
    """Tokens of one selector, with one token of lookahead. '' is the end of the string."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next = self._scan()

    def _scan(self) -> str:
        match = _token(self._text, self._at)
        # The pattern takes any character, so it always matches.
        self._at = match.end() if match else len(self._text)
        return match[1] if match else ""

    def _take(self) -> str:
        token, self._next = self._next, self._scan()
        return token

    def requirements(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while self._next:
            if not (_is_word(self._next) or self._next == "!"):
                raise ValueError(f"found '{self._next}', expected: !, identifier, or 'end of string'")
            if len(requirements) >= REQUIREMENTS_MAX:
                raise ValueError(f"a selector has at most {REQUIREMENTS_MAX} requirements")
            try:
                requirements.append(self._requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            self._separator()
        return requirements

    def _separator(self) -> None:
        separator = self._take()
        if separator not in {"", ","}:
            raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
        if separator and not (_is_word(self._next) or self._next == "!"):
            raise ValueError(f"found '{self._next}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        missing = self._next == "!"
        if missing:
            self._take()
        key = self._take()
        if not _is_word(key):
            raise ValueError(f"found '{key}', expected: identifier")
        _check_key(key, "<nil>")
        if missing or self._next in {"", ","}:
            return requirement_of(key, MISSING if missing else EXISTS, [])
        operator = self._operator()
        values = self._values() if operator in _LISTS_VALUES else [self._value()]
        return requirement_of(key, operator, values)

    def _operator(self) -> str:
        token = self._take()
        if token in _LISTS_VALUES:
            return token
        if token not in _SYMBOLS:
            raise ValueError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        return _SYMBOLS[token]

    def _value(self) -> str:
        if self._next in {"", ","}:
            return ""
        token = self._take()
        if not _is_word(token):
            raise ValueError(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> list[str]:
        """The values between parentheses; nothing beside a comma is the empty value."""
        token = self._take()
        if token != "(":
            raise ValueError(f"found '{token}' expected: '('")
        if self._next == ")":
            self._take()
            return []
        values = [self._listed()]
        while self._next == ",":
            self._take()
            values.append(self._listed())
            if len(values) > VALUES_MAX:
                raise ValueError(f"a requirement lists at most {VALUES_MAX} values")
        token = self._take()
        if token != ")":
            raise ValueError(f"found '{token}', expected: ',' or ')'")
        return values

    def _listed(self) -> str:
        if self._next in {",", ")"}:
            return ""
        if not _is_word(self._next):
            raise ValueError(f"found '{self._next}', expected: ',', ')' or identifier")
        return self._take()


def _is_word(token: str) -> bool:
    return token not in {"", "=", "==", "!=", "!", "(", ")", ",", "<", ">"}


class FieldRequirement(msgspec.Struct, frozen=True):
    path: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.path}{'=' if self.equal else '!='}{escaped}"


class FieldSelector(msgspec.Struct, frozen=True):
    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """`value_of` gives a field as text, '' where it is not set."""
        for requirement in self.requirements:
            if (value_of(requirement.path) == requirement.value) is not requirement.equal:
                return False
        return True

    def exact(self, path: str) -> str | None:
        """The one value that the field must have; None if any may do."""
        return next(
            (
                requirement.value
                for requirement in self.requirements
                if requirement.equal and requirement.path == path
            ),
            None,
        )

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_field_term = re.compile(r"(?:[^\\,]|\\.)*(?:\\\Z)?", re.DOTALL).match
_field_operator = re.compile(r"!=|==|=").search


def _check_length(text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise ValueError(f"a selector has at most {TEXT_CHARS_MAX} characters, this one has {len(text)}")


def parse_field_selector(text: str) -> FieldSelector:
    _check_length(text)
    if text.count(",") >= REQUIREMENTS_MAX and sum(1 for _ in _terms(text)) > REQUIREMENTS_MAX:
        raise ValueError(f"a selector has at most {REQUIREMENTS_MAX} requirements")
    read = [_field_requirement(term, text) for term in _terms(text) if term]
    return FieldSelector(
        tuple(sorted(read, key=lambda requirement: (requirement.path, requirement.value, requirement.equal)))
    )


def _terms(text: str) -> Iterator[str]:
    start = 0
    while start <= len(text):
        match = _field_term(text, start)
        term = match[0] if match else ""
        yield term
        start += len(term) + 1


def _field_requirement(term: str, whole: str) -> FieldRequirement:
    operator = _field_operator(term)
    if operator is None:
        raise ValueError(f"invalid selector: '{whole}'; can't understand '{term}'")
    value = _unescaped(term[operator.end() :])
    return FieldRequirement(term[: operator.start()], value, operator[0] != "!=")


def _unescaped(value: str) -> str:
    if "\\" not in value and "=" not in value:
        return value
    characters: list[str] = []
    chars = iter(value)
    for char in chars:
        following = next(chars, "") if char == "\\" else ""
        if char == "\\" and following not in {"\\", ",", "="}:
            raise ValueError(f"invalid field selector: invalid escape sequence: \\{following}")
        if char == "=":
            raise ValueError(f"invalid field selector: unescaped character in value: {char}")
        characters.append(following or char)
    return "".join(characters)
