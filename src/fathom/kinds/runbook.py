"""Runbook: a procedure for operators, as data: parameters, preconditions, steps, postconditions.

A client carries it out with its caller's own credentials (`fathom runbook run`); no server does. A run keeps
a copy of the spec and its hash, so a later edit changes no run. Conditions are CEL: `steer/conditions.py`.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.runbook_validation import ACTIONS, WRITING_ACTIONS, validate, validate_update
from fathom.kinds.schema import Count, Name, field_schema, one_of
from fathom.kinds.shape import Meta, ObjectRef, Shape
from fathom.model.column import Column

Duration = Annotated[str, field_schema("Such as 30s, 5m or 1h30m.", maxLength=64)]
Expression = Annotated[str, field_schema(minLength=1, maxLength=4096)]

# What a reference in a runbook leaves out.
_DEFAULTS = (
    "Without apiVersion it is of fathom.dev/v1alpha1, without namespace in the run's. Its uid is not read."
)


class RunbookParameter(Shape, frozen=True):
    name: Annotated[Name, field_schema("Its name: `${name}` in a template is its value.", required=True)] = ""
    description: Annotated[str, field_schema("What it is, for whoever starts a run.")] = ""
    default: Annotated[
        str | None,
        field_schema("Its value if a run gives none. Absent: whoever starts a run must give one."),
    ] = None
    pattern: Annotated[
        str, field_schema("A regular expression that the whole value must match. Absent: any value.")
    ] = ""
    type: Annotated[
        str,
        one_of("string", "integer", "boolean"),
        field_schema("What `${name}` alone becomes in a template. Default: string."),
    ] = ""


class ListedObjects(Shape, frozen=True):
    api_version: Annotated[
        str, field_schema("Their group and version, such as apps/v1. Absent: fathom.dev/v1alpha1.")
    ] = ""
    kind: Annotated[Name, field_schema("Their kind, such as Pod.", required=True)] = ""
    namespace: Annotated[
        str, field_schema("Their namespace. Absent: the namespace of the run. '*': all namespaces.")
    ] = ""
    label_selector: Annotated[
        str, field_schema("Only objects with these labels, as for `kubectl get -l`: app=web.")
    ] = ""
    field_selector: Annotated[
        str,
        field_schema(
            "Only objects with these fields, as for `kubectl get --field-selector`: spec.nodeName=a."
        ),
    ] = ""


class MetricSamples(Shape, frozen=True):
    process: Annotated[
        Name, field_schema("The process that has the metric, as in /metrics/scheduler.", required=True)
    ] = ""
    name: Annotated[Name, field_schema("The name of the metric, as in Prometheus' text.", required=True)] = ""
    labels: Annotated[
        dict[str, str], field_schema("Only samples with these labels. Absent: all samples.")
    ] = msgspec.field(default_factory=dict)


class DecisionsAbout(Shape, frozen=True):
    workload: Annotated[
        Name,
        field_schema(
            "The name of the workload: decisions about it, its ReplicaSets and pods.", required=True
        ),
    ] = ""
    after: Annotated[
        str, field_schema("Only decisions after the action of the step with this id. Absent: all on record.")
    ] = ""
    controller: Annotated[
        str, field_schema("Only decisions of this controller, such as scheduler. Absent: of all.")
    ] = ""


class RunbookInput(Shape, frozen=True):
    name: Annotated[
        Name, field_schema("The name of the variable in conditions, such as target.", required=True)
    ] = ""
    object: Annotated[
        ObjectRef | None,
        field_schema(
            f"One object, or null. Set exactly one of object, list, metric and decisions. {_DEFAULTS}"
        ),
    ] = None
    list: Annotated[ListedObjects | None, field_schema("A list of objects.")] = None
    metric: Annotated[
        MetricSamples | None, field_schema("A list of samples of a metric, each with labels and value.")
    ] = None
    decisions: Annotated[
        DecisionsAbout | None, field_schema("A list of Decisions about a workload, the oldest first.")
    ] = None
    time_path: Annotated[
        str,
        field_schema(
            "Where an object says when it was written, for maxAge: status.observedAt.", maxLength=256
        ),
    ] = ""
    max_age: Annotated[
        Duration,
        field_schema(
            "How old the object may be by timePath, such as 1m; what is older, or as far in the future, is"
            " Unknown. Absent: any age."
        ),
    ] = ""
    observed: Annotated[
        bool,
        field_schema(
            "Whether an object whose status is about an older generation is Unknown. Default: false."
        ),
    ] = False


class RunbookCondition(Shape, frozen=True):
    name: Annotated[
        Name, field_schema("Its name, as records and reports have it: workload-exists.", required=True)
    ] = ""
    expression: Annotated[
        Expression,
        field_schema(
            "CEL that gives true or false: `target != null`. What needs missing or stale data is Unknown and"
            " never passes.",
            required=True,
        ),
    ] = ""
    message: Annotated[
        str,
        field_schema(
            "What it means, for people, if it does not hold; of stopIf, if it does.", maxLength=1024
        ),
    ] = ""
    show: Annotated[
        str,
        field_schema(
            "CEL whose value is shown as evidence, such as `target.status.readyReplicas`.", maxLength=4096
        ),
    ] = ""
    for_: Annotated[
        Duration,
        field_schema(
            "Of postconditions: how long it must hold without interruption, such as 30s. Absent: at one look."
        ),
    ] = msgspec.field(default="", name="for")
    once: Annotated[
        bool,
        field_schema(
            "Of preconditions: whether it is checked only until the first write of a run. Default: false."
        ),
    ] = False
    then: Annotated[
        str,
        one_of("stop", "undo"),
        field_schema(
            "Of stopIf: the run stops and waits for a person (stop, the default), or is undone (undo)."
        ),
    ] = ""


class PatchAction(Shape, frozen=True):
    target: Annotated[ObjectRef, field_schema(f"The object to change. {_DEFAULTS}", required=True)] = (
        ObjectRef()
    )
    patch: Annotated[
        dict[str, Any], field_schema("A JSON merge patch: {spec: {paused: true}}.", required=True)
    ] = msgspec.field(default_factory=dict)


class ScaleAction(Shape, frozen=True):
    target: Annotated[
        ObjectRef, field_schema(f"The object to scale, with spec.replicas. {_DEFAULTS}", required=True)
    ] = ObjectRef()
    replicas: Annotated[
        str | int,
        field_schema(
            "Its new spec.replicas: a number, or a parameter such as ${replicas}.",
            required=True,
            **{"x-kubernetes-int-or-string": True},
        ),
    ] = 0


class WaitAction(Shape, frozen=True):
    about: Annotated[
        str, field_schema("What the run waits for, for people. What must hold is in the step's expect.")
    ] = ""


class PromptAction(Shape, frozen=True):
    question: Annotated[
        str, field_schema("The question to a person; its answer is yes or no.", required=True)
    ] = ""


class RunbookAction(Shape, frozen=True):
    create: Annotated[
        dict[str, Any] | None,
        field_schema(
            "The object to create, with `${parameter}` for values. An action is exactly one of these."
        ),
    ] = None
    apply: Annotated[
        dict[str, Any] | None,
        field_schema("The object to create, or to change by a merge patch if it exists."),
    ] = None
    patch: Annotated[
        PatchAction | None, field_schema("An object that exists is changed by a merge patch.")
    ] = None
    delete: Annotated[ObjectRef | None, field_schema(f"The object to delete. {_DEFAULTS}")] = None
    scale: Annotated[ScaleAction | None, field_schema("The replicas of an object are set.")] = None
    wait: Annotated[
        WaitAction | None, field_schema("Nothing is written: the step is done when its expect holds.")
    ] = None
    prompt: Annotated[
        PromptAction | None, field_schema("A person is asked: yes goes on, no is a failure of the step.")
    ] = None
    restore: Annotated[
        bool,
        field_schema(
            "Only as compensation of apply, patch and scale: whether the values of before are put back,"
            " except where somebody else has changed them since."
        ),
    ] = False


class StepRetry(Shape, frozen=True):
    attempts: Annotated[
        int, field_schema("How often the write is tried at most. Default: 3.", minimum=1, maximum=20)
    ] = 3
    backoff: Annotated[
        Duration,
        field_schema("The wait after the first failure; doubled with each, to a minute. Default: 2s."),
    ] = "2s"


class RunbookStep(Shape, frozen=True):
    id: Annotated[
        Name,
        field_schema(
            "Its name in records, conditions and answers: lower-case letters, digits and '-'.", required=True
        ),
    ] = ""
    title: Annotated[str, field_schema("What it does, for people. Absent: its action is shown.")] = ""
    action: Annotated[
        RunbookAction, field_schema("What it does: exactly one of the fields.", required=True)
    ] = RunbookAction()
    timeout: Annotated[
        Duration, field_schema("How long `expect` may take to hold after the action. Default: 5m.")
    ] = "5m"
    retry: Annotated[
        StepRetry, field_schema("How often and when a write that failed for the moment is tried again.")
    ] = StepRetry()
    compensation: Annotated[
        RunbookAction | None,
        field_schema("What undoes the step when the run is undone. Absent: nothing does."),
    ] = None
    reversible: Annotated[
        bool, field_schema("Whether the step can be undone; shown before a run. Default: true.")
    ] = True
    on_failure: Annotated[
        str,
        one_of("stop", "undo"),
        field_schema("If it fails: stop, and a person must look (the default), or undo the run."),
    ] = ""
    stop_if: Annotated[
        tuple[RunbookCondition, ...],
        field_schema(
            "Signs of a regression, watched from this step to the last one: if one holds, the run stops or"
            " is undone.",
            maxItems=16,
        ),
    ] = ()
    expect: Annotated[
        tuple[RunbookCondition, ...],
        field_schema(
            "What must hold, within timeout, before the step is done. Absent: nothing.", maxItems=16
        ),
    ] = ()


class RunbookSpec(Shape, frozen=True):
    title: Annotated[str, field_schema("What it is for, in one line.")] = ""
    description: Annotated[
        str, field_schema("When to use it and what to know before, for people.", maxLength=8192)
    ] = ""
    version: Annotated[
        Count, field_schema("A number from 1. It must be raised with every change of the spec.", minimum=1)
    ] = 1
    parameters: Annotated[
        tuple[RunbookParameter, ...],
        field_schema(
            "What whoever starts a run chooses. ${run}, ${uid} and ${namespace} are given.", maxItems=32
        ),
    ] = ()
    inputs: Annotated[
        tuple[RunbookInput, ...],
        field_schema("What conditions look at, read again at each look.", maxItems=32),
    ] = ()
    preconditions: Annotated[
        tuple[RunbookCondition, ...],
        field_schema("What must hold before the first step, and before each that writes.", maxItems=32),
    ] = ()
    stop_if: Annotated[
        tuple[RunbookCondition, ...],
        field_schema(
            "Signs of a regression, watched during all steps: if one holds, the run stops or is undone.",
            maxItems=16,
        ),
    ] = ()
    steps: Annotated[
        tuple[RunbookStep, ...],
        field_schema("What is done, in order; at least one step.", required=True, maxItems=64),
    ] = ()
    postconditions: Annotated[
        tuple[RunbookCondition, ...],
        field_schema("What must hold after the last step, or the run has failed.", maxItems=32),
    ] = ()
    unknown_for: Annotated[
        Duration,
        field_schema(
            "How long a condition that is judged before a step may stay Unknown until the"
            " run stops. Default: 1m."
        ),
    ] = "1m"
    postconditions_within: Annotated[
        Duration, field_schema("How long after the last step all postconditions must hold. Default: 10m.")
    ] = "10m"


class Runbook(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[RunbookSpec, field_schema("The procedure. People write it.", required=True)] = (
        RunbookSpec()
    )


def spec_hash(spec: RunbookSpec) -> str:
    """What a run is pinned by. Of the Struct: a field that is written out with its default is the same."""
    return hashlib.sha256(msgspec.json.encode(spec, order="sorted")).hexdigest()


def action_name(action: RunbookAction) -> str:
    """'' where none is set."""
    return next((name for name in ACTIONS if getattr(action, name) is not None), "")


def writes(step: RunbookStep) -> bool:
    return action_name(step.action) in WRITING_ACTIONS


DEFINITION = KindDefinition(
    shape=Runbook,
    about="A procedure for operators: parameters, preconditions, steps that can be undone, postconditions."
    " `fathom runbook run` carries it out with the credentials of its caller.",
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
