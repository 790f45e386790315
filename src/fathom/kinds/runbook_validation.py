"""What the spec of a Runbook may say, in a Runbook and in the copy that a run has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fathom.kinds.values import duration_causes, items, mapping, text
from fathom.model import causes
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup

# Names that templates and conditions have besides the parameters and inputs.
BUILT_IN = ("namespace", "run", "uid")
# What conditions know besides the inputs.
KNOWN_VARIABLES = ("params", "now", "run", "steps")
WRITING_ACTIONS = ("create", "apply", "patch", "delete", "scale")
ACTIONS = (*WRITING_ACTIONS, "wait", "prompt")

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[a-z][A-Za-z0-9_]*")
_STEP_ID = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def validate(obj: Obj) -> list[Cause]:
    return spec_causes(mapping(obj.get("spec")), "spec")


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    """Two specs never have the same version: records name it."""
    errors = validate(obj)
    if obj.get("spec") != old.get("spec"):
        version, before = (lookup(each, "spec", "version") or 1 for each in (obj, old))
        if not isinstance(version, int) or not isinstance(before, int) or version <= before:
            why = f"must be raised with a change of the spec: it was {before}"
            errors.append(causes.invalid("spec.version", version, why))
    return errors


def spec_causes(spec: Obj, field: str) -> list[Cause]:
    """What is wrong with a spec, wherever it is written."""
    errors: list[Cause] = Causes()
    known = {*BUILT_IN}
    for index, parameter in enumerate(items(spec.get("parameters"))):
        known.add(text(mapping(parameter).get("name")))
        errors += _pattern_causes(mapping(parameter), f"{field}.parameters[{index}]")
    for index, given in enumerate(items(spec.get("inputs"))):
        errors += _input_causes(mapping(given), f"{field}.inputs[{index}]")
    if not items(spec.get("steps")):
        errors.append(causes.required(f"{field}.steps", "a runbook has at least one step"))
    ids: set[str] = set()
    for index, step in enumerate(items(spec.get("steps"))):
        errors += _step_causes(mapping(step), f"{field}.steps[{index}]", ids)
    for name in ("unknownFor", "postconditionsWithin"):
        errors += duration_causes(spec.get(name), f"{field}.{name}")
    for index, condition in enumerate(items(spec.get("postconditions"))):
        errors += duration_causes(mapping(condition).get("for"), f"{field}.postconditions[{index}].for")
    for name in dict.fromkeys(placeholders({**spec, "description": ""})):
        if name not in known:
            errors.append(causes.invalid(field, f"${{{name}}}", "is no parameter of the runbook"))
    return errors


def placeholders(template: Any) -> Iterator[str]:
    """The names in `${...}` anywhere in a template."""
    if isinstance(template, str):
        yield from _PLACEHOLDER.findall(template)
    elif isinstance(template, dict):
        for key, value in template.items():
            yield from placeholders(key)
            yield from placeholders(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from placeholders(value)


def _pattern_causes(parameter: Obj, field: str) -> list[Cause]:
    try:
        re.compile(text(parameter.get("pattern")))
    except (re.error, RecursionError, OverflowError) as error:
        return [causes.invalid(f"{field}.pattern", parameter.get("pattern"), str(error))]
    return []


def _input_causes(given: Obj, field: str) -> list[Cause]:
    errors: list[Cause] = []
    name = text(given.get("name"))
    if name in KNOWN_VARIABLES or not _VARIABLE.fullmatch(name):
        why = f"must be a variable name such as target, and none of {', '.join(KNOWN_VARIABLES)}"
        errors.append(causes.invalid(f"{field}.name", name, why))
    if sum(given.get(kind) is not None for kind in ("object", "list", "metric", "decisions")) != 1:
        errors.append(causes.invalid(field, name, "must have one of object, list, metric, decisions"))
    if given.get("maxAge") and not given.get("timePath"):
        errors.append(causes.required(f"{field}.timePath", "must be set together with maxAge"))
    return errors + duration_causes(given.get("maxAge"), f"{field}.maxAge")


def _step_causes(step: Obj, field: str, ids: set[str]) -> list[Cause]:
    errors: list[Cause] = []
    id_ = text(step.get("id"))
    if not _STEP_ID.fullmatch(id_):
        errors.append(
            causes.invalid(f"{field}.id", id_, "must be lower-case letters, digits and '-', at most 63")
        )
    if id_ in ids:
        errors.append(causes.duplicate(f"{field}.id", id_))
    ids.add(id_)
    errors += _action_causes(mapping(step.get("action")), f"{field}.action", compensates=False)
    if step.get("compensation") is not None:
        errors += _action_causes(mapping(step.get("compensation")), f"{field}.compensation", compensates=True)
    errors += duration_causes(step.get("timeout"), f"{field}.timeout")
    return errors + duration_causes(lookup(step, "retry", "backoff"), f"{field}.retry.backoff")


def _action_causes(action: Obj, field: str, *, compensates: bool) -> list[Cause]:
    allowed = (*WRITING_ACTIONS, "restore") if compensates else ACTIONS
    given = [name for name in (*ACTIONS, "restore") if action.get(name) not in (None, False)]
    if len(given) == 1 and given[0] in allowed:
        return []
    return [causes.invalid(field, ", ".join(given) or None, f"must have exactly one of {', '.join(allowed)}")]
