"""Runbook: a procedure for operators, as data: parameters, preconditions, steps, postconditions.

A client carries it out with its caller's own credentials (`fathom runbook run`); no server does. A run keeps
a copy of the spec and its hash, so a later edit changes no run. Conditions are CEL: `steer/conditions.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import REQUIRED, Count, Name, field_schema, one_of
from fathom.kinds.shape import Meta, ObjectRef, Shape
from fathom.kinds.values import duration_causes, items, mapping, text
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup

Duration = Annotated[str, field_schema("Such as 30s, 5m or 1h30m.", maxLength=64)]
Expression = Annotated[str, field_schema(minLength=1, maxLength=4096)]

# Names that templates and conditions have besides the parameters and inputs.
BUILT_IN = ("namespace", "run", "uid")
# What conditions know besides the inputs.
KNOWN_VARIABLES = ("params", "now", "run", "steps")
WRITING_ACTIONS = ("create", "apply", "patch", "delete", "scale")
ACTIONS = (*WRITING_ACTIONS, "wait", "prompt")

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[a-z][A-Za-z0-9_]*")
_STEP_ID = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class RunbookParameter(Shape, frozen=True):
    name: Annotated[Name, REQUIRED] = ""
    description: str = ""
    default: Annotated[str | None, field_schema("Absent: whoever starts a run must give a value.")] = None
    pattern: Annotated[str, field_schema("A regular expression that the whole value must match.")] = ""
    type: Annotated[
        str,
        one_of("string", "integer", "boolean"),
        field_schema("What `${name}` alone becomes in a template. Default: string."),
    ] = ""


class ListedObjects(Shape, frozen=True):
    api_version: str = ""
    kind: Annotated[Name, REQUIRED] = ""
    namespace: Annotated[str, field_schema("Absent: the run's. '*': all namespaces.")] = ""
    label_selector: str = ""
    field_selector: str = ""


class MetricSamples(Shape, frozen=True):
    process: Annotated[Name, field_schema("As in /metrics/PROCESS: scheduler.", required=True)] = ""
    name: Annotated[Name, REQUIRED] = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class DecisionsAbout(Shape, frozen=True):
    """Recorded decisions about a workload, what it owns, and its pods, oldest first."""

    workload: Annotated[Name, field_schema("The name of the workload.", required=True)] = ""
    after: Annotated[str, field_schema("Only decisions after the action of this step.")] = ""
    controller: Annotated[str, field_schema("Only decisions of this controller, such as scheduler.")] = ""


class RunbookInput(Shape, frozen=True):
    """Something that conditions look at. Exactly one of object, list, metric, decisions."""

    name: Annotated[Name, field_schema("The name of the variable in conditions.", required=True)] = ""
    object: Annotated[ObjectRef | None, field_schema("One object; null where there is none.")] = None
    list: ListedObjects | None = None
    metric: MetricSamples | None = None
    decisions: DecisionsAbout | None = None
    time_path: Annotated[
        str, field_schema("Where an object says when it was written: status.observedAt.", maxLength=256)
    ] = ""
    max_age: Annotated[Duration, field_schema("What is older by `timePath` is stale: it is Unknown.")] = ""
    observed: Annotated[
        bool, field_schema("An object whose status is about an older generation is stale: it is Unknown.")
    ] = False


class RunbookCondition(Shape, frozen=True):
    name: Annotated[Name, REQUIRED] = ""
    expression: Annotated[
        Expression,
        field_schema("CEL, true or false. What needs missing or stale data is Unknown and never passes."),
        REQUIRED,
    ] = ""
    message: Annotated[str, field_schema("What it means if it does not hold.", maxLength=1024)] = ""
    show: Annotated[str, field_schema("CEL: the value to show as evidence.", maxLength=4096)] = ""
    for_: Annotated[Duration, field_schema("How long it must hold (postconditions).")] = msgspec.field(
        default="", name="for"
    )
    once: Annotated[
        bool, field_schema("A precondition that is checked only before the first write of a run.")
    ] = False
    then: Annotated[
        str,
        one_of("stop", "undo"),
        field_schema("Of stopIf: the run stops and waits for a person (stop, the default), or is undone."),
    ] = ""


class PatchAction(Shape, frozen=True):
    target: Annotated[ObjectRef, REQUIRED] = ObjectRef()
    patch: Annotated[dict[str, Any], field_schema("A JSON merge patch.", required=True)] = msgspec.field(
        default_factory=dict
    )


class ScaleAction(Shape, frozen=True):
    target: Annotated[ObjectRef, REQUIRED] = ObjectRef()
    replicas: Annotated[str | int, field_schema(**{"x-kubernetes-int-or-string": True}), REQUIRED] = 0


class WaitAction(Shape, frozen=True):
    """Nothing is written: the step is done when its `expect` holds."""

    about: Annotated[str, field_schema("What the run waits for, in words.")] = ""


class PromptAction(Shape, frozen=True):
    question: Annotated[str, field_schema("What a person must judge; answered yes or no.", required=True)] = (
        ""
    )


class RunbookAction(Shape, frozen=True):
    """Exactly one of them. `${parameter}` stands for a parameter's value."""

    create: Annotated[dict[str, Any] | None, field_schema("The object to create.")] = None
    apply: Annotated[
        dict[str, Any] | None, field_schema("The object to create, or to change by a merge patch.")
    ] = None
    patch: PatchAction | None = None
    delete: ObjectRef | None = None
    scale: ScaleAction | None = None
    wait: WaitAction | None = None
    prompt: PromptAction | None = None
    restore: Annotated[
        bool,
        field_schema(
            "As compensation of apply, patch and scale: put back the values of before, except where somebody"
            " else has changed them since."
        ),
    ] = False


class StepRetry(Shape, frozen=True):
    attempts: Annotated[int, field_schema(minimum=1, maximum=20)] = 3
    backoff: Annotated[Duration, field_schema("The wait after the first failure; doubled with each.")] = "2s"


class RunbookStep(Shape, frozen=True):
    id: Annotated[Name, REQUIRED] = ""
    title: str = ""
    action: Annotated[RunbookAction, REQUIRED] = RunbookAction()
    timeout: Annotated[
        Duration, field_schema("How long `expect` may take to hold after the action. Default: 5m.")
    ] = "5m"
    retry: StepRetry = StepRetry()
    compensation: Annotated[RunbookAction | None, field_schema("What undoes the step, at an abort.")] = None
    reversible: Annotated[bool, field_schema("Whether the step can be undone. Shown before a run.")] = True
    on_failure: Annotated[
        str,
        one_of("stop", "undo"),
        field_schema("If it fails: stop and wait for a person (the default), or undo the run."),
    ] = ""
    stop_if: Annotated[
        tuple[RunbookCondition, ...],
        field_schema(
            "Signs of a regression, watched from this step to the end of the run.",
            maxItems=16,
        ),
    ] = ()
    expect: Annotated[
        tuple[RunbookCondition, ...], field_schema("What must hold before the step is done.", maxItems=16)
    ] = ()


class RunbookSpec(Shape, frozen=True):
    title: str = ""
    description: Annotated[str, field_schema(maxLength=8192)] = ""
    version: Annotated[Count, field_schema("Raised with every change of the spec.", minimum=1)] = 1
    parameters: Annotated[tuple[RunbookParameter, ...], field_schema(maxItems=32)] = ()
    inputs: Annotated[tuple[RunbookInput, ...], field_schema(maxItems=32)] = ()
    preconditions: Annotated[
        tuple[RunbookCondition, ...],
        field_schema("What must hold before the first step, and before each that writes.", maxItems=32),
    ] = ()
    stop_if: Annotated[
        tuple[RunbookCondition, ...],
        field_schema("Signs of a regression, watched during the whole run.", maxItems=16),
    ] = ()
    steps: Annotated[tuple[RunbookStep, ...], field_schema(maxItems=64), REQUIRED] = ()
    postconditions: Annotated[
        tuple[RunbookCondition, ...], field_schema("What must hold in the end.", maxItems=32)
    ] = ()
    unknown_for: Annotated[
        Duration, field_schema("How long a condition may stay Unknown before the run stops. Default: 1m.")
    ] = "1m"
    postconditions_within: Annotated[
        Duration, field_schema("How long after the last step all postconditions must hold. Default: 10m.")
    ] = "10m"


class Runbook(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[RunbookSpec, REQUIRED] = RunbookSpec()


def spec_hash(spec: RunbookSpec) -> str:
    """What a run is pinned by. Of the Struct: a field that is written out with its default is the same."""
    return hashlib.sha256(msgspec.json.encode(spec, order="sorted")).hexdigest()


def action_name(action: RunbookAction) -> str:
    """'' where none is set."""
    return next((name for name in ACTIONS if getattr(action, name) is not None), "")


def writes(step: RunbookStep) -> bool:
    return action_name(step.action) in WRITING_ACTIONS


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


DEFINITION = KindDefinition(
    shape=Runbook,
    plural="runbooks",
    namespaced=True,
    columns=(
        Column("Version", "integer", ".spec.version"),
        Column("Title", "string", ".spec.title"),
    ),
    rules=Rules(validate_create=validate, validate_update=validate_update),
    view_role_reads=True,
    admin_role_writes=True,
)
RUNBOOKS = DEFINITION.resource
