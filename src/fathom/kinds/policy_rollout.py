"""PolicyRollout: moves the pods of a scope to another scheduling policy, step by step."""

from __future__ import annotations

import zlib
from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.scheduling_policy import Scope
from fathom.kinds.schema import Count, Name, Percent, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, ObservedGeneration, Shape
from fathom.kinds.values import duration_causes, items, mapping
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup


class Step(Shape, frozen=True):
    percent: Annotated[
        Percent,
        field_schema("The share of workloads that get the new policy, from 0 to 100.", required=True),
    ] = 100
    hold: Annotated[
        str,
        field_schema(
            "How long this share stays before the next step, such as 10m. Only time in which the gates could"
            " be judged counts. Default: 0s."
        ),
    ] = "0s"


class Gates(Shape, frozen=True):
    no_pending_regression: Annotated[
        bool,
        field_schema(
            "Whether the step fails if a larger share of pods waits because of the new policy than because of"
            " the old one. Default: true."
        ),
    ] = True
    signals_max_age: Annotated[
        str,
        field_schema("The step is held while its signals are older than this, such as 1m. Default: 30s."),
    ] = "30s"
    observed_by: Annotated[
        tuple[Name, ...],
        field_schema(
            "Schedulers whose caches must have reached status.activationRevision. A name also stands for"
            " those named after it: scheduler-0of2. Default: [scheduler]."
        ),
    ] = ("scheduler",)


class PolicyRolloutSpec(Shape, frozen=True):
    from_: Annotated[
        Name,
        field_schema(
            "The SchedulingPolicy before the rollout, and after a rollback. Absent: what applies without"
            " this rollout, such as the built-in policy. It never changes."
        ),
    ] = msgspec.field(default="", name="from")
    to: Annotated[
        Name, field_schema("The SchedulingPolicy to roll out. It never changes.", required=True)
    ] = ""
    scope: Annotated[Scope, field_schema("Which pods it is for. Empty: all pods. It never changes.")] = (
        Scope()
    )
    steps: Annotated[
        tuple[Step, ...],
        field_schema(
            "The steps, in order; after the last one the new policy applies to the whole scope. Absent: 10 %"
            " for 1m, then 50 % for 1m.",
            maxItems=32,
        ),
    ] = ()
    gates: Annotated[Gates, field_schema("What must hold before each next step.")] = Gates()
    automatic_rollback: Annotated[
        bool,
        field_schema(
            "Whether a step that fails brings the old policy back. false: it is held, for a person to judge."
            " Default: true."
        ),
    ] = True
    paused: Annotated[
        bool,
        field_schema("Whether the rollout waits at its step: it goes neither on nor back. Default: false."),
    ] = False


class Observer(Shape, frozen=True):
    controller: Annotated[
        str, field_schema("The name of the scheduler, such as scheduler or scheduler-0of2.", required=True)
    ] = ""
    observed_generation: Annotated[
        Count, field_schema("The metadata.generation of the rollout that it has seen.")
    ] = 0
    revision: Annotated[
        Count,
        field_schema(
            "The revision that its caches had reached. Below activationRevision: it may still decide by the"
            " earlier policy."
        ),
    ] = 0
    time: Annotated[Time, field_schema("When it reported.")] = ""
    lease: Annotated[
        str,
        field_schema(
            "NAMESPACE/NAME of its lease: of the schedulers that share one, one works. Absent: it has none."
        ),
    ] = ""
    epoch: Annotated[
        Count, field_schema("The term of that lease. Another term is another process, with other caches.")
    ] = 0


class PolicyRolloutStatus(Shape, frozen=True):
    phase: Annotated[
        str,
        one_of("Pending", "Canary", "Complete", "RolledBack"),
        field_schema(
            "Pending: the new policy does not exist yet. Canary: a share of workloads has it. Complete: all"
            " have it. RolledBack: none has it any more."
        ),
    ] = ""
    active: Annotated[
        str,
        field_schema("The policy that is active for the scope. Empty: what applies without this rollout."),
    ] = ""
    canary: Annotated[
        str, field_schema("The policy that is active for percent of it instead. Empty: no canary.")
    ] = ""
    percent: Annotated[
        Percent, field_schema("The share of workloads that have the canary's policy, from 0 to 100.")
    ] = 0
    step: Annotated[
        Count,
        field_schema(
            "The index of the present step, from 0; when the rollout is complete, the number of steps."
        ),
    ] = 0
    activation_revision: Annotated[
        Count,
        field_schema(
            "The revision from which the present step, or the end of the rollout, applies. 0: not written"
            " yet."
        ),
    ] = 0
    step_started_at: Annotated[Time, field_schema("When the present step began, or the rollout ended.")] = ""
    baked_seconds: Annotated[
        Count,
        field_schema(
            "For how many seconds the step was judged with fresh signals, as of the last write of the status."
        ),
    ] = 0
    observed_generation: ObservedGeneration = 0
    observed_by: Annotated[
        tuple[Observer, ...],
        field_schema("The schedulers that have seen the present step, or the end. Each reports for itself."),
    ] = ()
    conditions: Annotated[
        Conditions,
        field_schema(
            "Progressing: True while a canary runs; its reason and message say what holds it, or how it"
            " ended."
        ),
    ] = ()


class PolicyRollout(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        PolicyRolloutSpec,
        field_schema(
            "Which policy replaces which, for whom, and how fast. People write it; each change of it begins"
            " the rollout again at its first step.",
            required=True,
        ),
    ] = PolicyRolloutSpec()
    status: Annotated[
        PolicyRolloutStatus, field_schema("How far the rollout is. The scheduler writes it.")
    ] = PolicyRolloutStatus()


def active_policies(rollout: PolicyRollout) -> tuple[str, ...]:
    """Names of the policies that a placement in the rollout's scope may have been decided by. Until the
    controller begins the rollout, the policy in `spec.from` is active."""
    if rollout.metadata.deletion_timestamp:
        return ()
    base = rollout.status.active or ("" if rollout.status.phase else rollout.spec.from_)
    canary = rollout.status.canary if rollout.status.percent else ""
    return tuple(name for name in dict.fromkeys((base, canary)) if name)


def policy_in(rollout: PolicyRollout, identity: str) -> str:
    """The policy for this workload or pod: a fixed share of identities is the canary, the same in every
    process. '' means that the rollout sets none."""
    names = active_policies(rollout)
    status = rollout.status
    if status.canary in names and zlib.crc32(identity.encode()) % 100 < status.percent:
        return status.canary
    return names[0] if names and names[0] != status.canary else ""


def validate(obj: Obj) -> list[Cause]:
    errors: list[Cause] = Causes()
    spec = mapping(obj.get("spec"))
    if spec.get("from") and spec.get("from") == spec.get("to"):
        errors.append(causes.invalid("spec.to", spec["to"], "must differ from spec.from"))
    before = 0
    for index, step in enumerate(items(spec.get("steps"))):
        field = f"spec.steps[{index}]"
        errors += duration_causes(mapping(step).get("hold"), f"{field}.hold")
        percent = mapping(step).get("percent")
        if isinstance(percent, int):
            if percent < before:
                errors.append(
                    causes.invalid(f"{field}.percent", percent, "must not be lower than in the step before")
                )
            before = percent
    errors += duration_causes(lookup(spec, "gates", "signalsMaxAge"), "spec.gates.signalsMaxAge")
    return errors


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    """The scope, `from` and `to` of a rollout are immutable: its status is about those."""
    errors = validate(obj)
    for field in ("from", "to", "scope"):
        before = lookup(old, "spec", field)
        errors += causes.unchanged(f"spec.{field}", lookup(obj, "spec", field), before)
    return errors


DEFINITION = KindDefinition(
    shape=PolicyRollout,
    about="Moves pods from one SchedulingPolicy to another in steps, each with gates, and back if pods wait"
    " because of the new one.",
    plural="policyrollouts",
    namespaced=False,
    short_names=("prl",),
    columns=(
        Column("From", "string", ".spec.from"),
        Column("To", "string", ".spec.to"),
        Column("Phase", "string", ".status.phase"),
        Column("Active", "string", ".status.active"),
        Column("Percent", "integer", ".status.percent"),
    ),
    rules=Rules(validate_create=validate, validate_update=validate_update),
    view_role_reads=True,
)
ROLLOUTS = DEFINITION.resource
