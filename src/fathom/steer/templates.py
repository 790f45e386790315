"""Parameters of a run, and templates with `${parameter}` in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fathom.kinds.runbook import RunbookParameter, RunbookSpec
from fathom.model.objects import Obj

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_BOOLEANS = {"true": True, "false": False}

T = TypeVar("T")


class BadParameter(Exception):
    """A value that is missing, unknown, or does not match; the message is one line."""


def resolved(content: RunbookSpec, given: Mapping[str, str]) -> dict[str, str]:
    """Every parameter with its value. Raises BadParameter."""
    names = [parameter.name for parameter in content.parameters]
    if unknown := sorted(set(given) - set(names)):
        raise BadParameter(f"there is no parameter {unknown[0]}; there are: {', '.join(names) or 'none'}")
    return {parameter.name: _value(parameter, given) for parameter in content.parameters}


def _value(parameter: RunbookParameter, given: Mapping[str, str]) -> str:
    value = given.get(parameter.name, parameter.default)
    if value is None:
        about = f" ({parameter.description})" if parameter.description else ""
        raise BadParameter(f"the parameter {parameter.name} needs a value{about}: --set {parameter.name}=…")
    if parameter.pattern and not re.fullmatch(parameter.pattern, value):
        raise BadParameter(f"{parameter.name}={value} does not match {parameter.pattern}")
    if parameter.type == "integer" and not _INTEGER.fullmatch(value):
        raise BadParameter(f"{parameter.name}={value} is not an integer")
    if parameter.type == "boolean" and value not in _BOOLEANS:
        raise BadParameter(f"{parameter.name}={value} is neither true nor false")
    return value


class Values(msgspec.Struct, frozen=True):
    """What placeholders stand for."""

    texts: Mapping[str, str]
    types: Mapping[str, str]  # Parameter -> its type, where that is not a string.

    def of(self, name: str) -> Any:
        value = self.texts[name]
        match self.types.get(name):
            case "integer":
                return int(value)
            case "boolean":
                return _BOOLEANS[value]
        return value


def values_of(
    content: RunbookSpec, parameters: Mapping[str, str], *, namespace: str, run: str, uid: str
) -> Values:
    types = {parameter.name: parameter.type for parameter in content.parameters if parameter.type}
    return Values({**parameters, "namespace": namespace, "run": run, "uid": uid}, types)


def filled(template: Any, values: Values) -> Any:
    """The template with values. A text that is one placeholder gets the parameter's type."""
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template)
        if whole:
            return values.of(whole.group(1))
        return _PLACEHOLDER.sub(lambda match: str(values.texts[match.group(1)]), template)
    if isinstance(template, dict):
        return {filled_text(key, values): filled(value, values) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [filled(value, values) for value in template]
    return template


def filled_text(template: str, values: Values) -> str:
    return str(filled(template, values))


def filled_struct(struct: T, values: Values) -> T:
    """A Struct whose texts are templates."""
    plain: Obj = filled(msgspec.to_builtins(struct), values)
    return msgspec.convert(plain, type(struct), strict=False)
