"""Parameters of a run, and templates with `${parameter}` in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fathom.kinds.runbook import RunbookSpec
from fathom.kinds.runbook_parameters import BOOLEANS, parameter_faults
from fathom.kinds.runbook_run import RunbookRun
from fathom.model.objects import Obj

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")

T = TypeVar("T")


class BadParameter(Exception):
    """A value that is missing, unknown, or does not match; the message is one line."""


def resolved(runbook: str, content: RunbookSpec, given: Mapping[str, str]) -> dict[str, str]:
    """Every parameter of the runbook with its value. Raises BadParameter."""
    for fault in parameter_faults(content, given):
        if fault.value is None:
            hint = f": --set {fault.name}=…"
            raise BadParameter(f"runbook {runbook}: the parameter {fault.name} {fault.why}{hint}")
        raise BadParameter(f"runbook {runbook}: {fault.name}={fault.value} {fault.why}")
    values = {
        parameter.name: given.get(parameter.name, parameter.default or "") for parameter in content.parameters
    }
    for parameter in content.parameters:
        value = values[parameter.name]
        if parameter.pattern and not re.fullmatch(parameter.pattern, value):
            raise BadParameter(
                f"runbook {runbook}: {parameter.name}={value} does not match {parameter.pattern}"
            )
    return values


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
                return BOOLEANS[value]
        return value


def values_of(
    content: RunbookSpec, parameters: Mapping[str, str], *, namespace: str, run: str, uid: str
) -> Values:
    types = {parameter.name: parameter.type for parameter in content.parameters if parameter.type}
    return Values({**parameters, "namespace": namespace, "run": run, "uid": uid}, types)


def run_parameters(run: RunbookRun) -> dict[str, str]:
    """Every parameter of a stored run with its value. Raises BadParameter: a server before this check may
    have stored it."""
    meta, spec = run.metadata, run.spec
    try:
        return resolved(spec.runbook.name, spec.content, spec.parameters)
    except BadParameter as error:
        raise BadParameter(f"run {meta.namespace}/{meta.name} cannot be carried out: {error}") from error


def run_values(run: RunbookRun) -> Values:
    """What placeholders stand for in a run. Raises BadParameter."""
    meta = run.metadata
    about = {"namespace": meta.namespace, "run": meta.name, "uid": meta.uid}
    return values_of(run.spec.content, run_parameters(run), **about)


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
