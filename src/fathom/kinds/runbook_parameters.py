"""Whether the values that a run has are those that its runbook asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from fathom.kinds.runbook import RunbookParameter, RunbookSpec
from fathom.model import causes
from fathom.model.errors import Cause

BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?[0-9]{1,18}")


class ParameterFault(msgspec.Struct, frozen=True):
    """What is wrong with one value."""

    name: str
    value: str | None  # None: a parameter without default that has no value.
    why: str  # Follows 'NAME=VALUE', or the name of a parameter that has no value.


def parameter_faults(content: RunbookSpec, given: Mapping[str, str]) -> Iterator[ParameterFault]:
    """All but values that do not match their pattern: whoever writes a run chooses the pattern too, and some
    take hours, so that the API server matches none."""
    names = [parameter.name for parameter in content.parameters]
    for name in sorted(set(given) - set(names)):
        why = f"is no parameter of it; there are: {', '.join(names) or 'none'}"
        yield ParameterFault(name, given[name], why)
    for parameter in content.parameters:
        value = given.get(parameter.name, parameter.default)
        if value is None:
            about = f" ({parameter.description})" if parameter.description else ""
            yield ParameterFault(parameter.name, None, f"needs a value{about}")
        elif why := _type_fault(parameter, value):
            yield ParameterFault(parameter.name, value, why)


def _type_fault(parameter: RunbookParameter, value: str) -> str:
    if parameter.type == "integer" and not _INTEGER.fullmatch(value):
        return "is not an integer"
    if parameter.type == "boolean" and value not in BOOLEANS:
        return "is neither true nor false"
    return ""


def parameter_causes(runbook: str, content: RunbookSpec, given: Mapping[str, str]) -> Iterator[Cause]:
    """The same, as the API server refuses a run for them."""
    for fault in parameter_faults(content, given):
        field, why = (
            f"spec.parameters[{fault.name}]",
            f"runbook {runbook}: parameter {fault.name} {fault.why}",
        )
        yield causes.required(field, why) if fault.value is None else causes.invalid(field, fault.value, why)
