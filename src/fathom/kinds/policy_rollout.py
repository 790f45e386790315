"""PolicyRollout: moves the pods of a scope to another scheduling policy, step by step."""

from __future__ import annotations

import zlib
from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.scheduling_policy import Scope
from fathom.kinds.schema import REQUIRED, Count, Name, Percent, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, Shape
from fathom.kinds.values import duration_causes, items, mapping, text
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup


class Step(Shape, frozen=True):
    percent: Annotated[Percent, REQUIRED] = 100
    hold: str = "0s"  # How long this share stays before the next step.


class Gates(Shape, frozen=True):
    no_pending_regression: bool = True
    signals_max_age: str = "30s"
    # Components whose caches must have reached the activation's revision.
    observed_by: tuple[Name, ...] = ("scheduler",)


class PolicyRolloutSpec(Shape, frozen=True):
    from_: Annotated[
        Name, field_schema("The policy that is active before the rollout, and after a rollback.")
    ] = msgspec.field(default="", name="from")
    to: Annotated[Name, field_schema("The policy to roll out.", required=True)] = ""
    scope: Scope = Scope()
    steps: Annotated[tuple[Step, ...], field_schema(maxItems=32)] = ()
    gates: Gates = Gates()
    automatic_rollback: bool = True
    paused: bool = False


class Observer(Shape, frozen=True):
    controller: Annotated[str, REQUIRED] = ""
    observed_generation: Count = 0
    revision: Count = 0  # That its caches had reached when it reported.
    time: Time = ""
    lease: str = ""  # namespace/name; of the schedulers that share one, one works at a time.
    epoch: Count = 0  # Of that lease. Another term means other caches.


class PolicyRolloutStatus(Shape, frozen=True):
    phase: Annotated[str, one_of("Pending", "Canary", "Complete", "RolledBack")] = ""
    active: str = ""  # The policy that is active for the scope.
    canary: str = ""  # The policy that is active for `percent` of it instead.
    percent: Percent = 0
    step: Count = 0
    activation_revision: Count = 0  # Of the store, when the present step began, or the rollout ended.
    step_started_at: Time = ""
    baked_seconds: Annotated[
        Count, field_schema("How long the step was observed with fresh signals, as of the last status write.")
    ] = 0
    observed_generation: Count = 0
    observed_by: tuple[Observer, ...] = ()
    conditions: Conditions = ()


class PolicyRollout(Shape, frozen=True):
    """Cluster-scoped: which policy is active for which scope."""

    metadata: Meta = Meta()
    spec: Annotated[PolicyRolloutSpec, REQUIRED] = PolicyRolloutSpec()
    status: PolicyRolloutStatus = PolicyRolloutStatus()


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


def warnings(obj: Obj) -> list[str]:
    steps = items(lookup(obj, "spec", "steps"))
    if steps and text(mapping(steps[-1]).get("hold")) and mapping(steps[-1]).get("percent") != 100:
        return ["spec.steps: the last step is not 100 percent: the rollout ends with a canary"]
    return []


DEFINITION = KindDefinition(
    shape=PolicyRollout,
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
    rules=Rules(validate_create=validate, validate_update=validate_update, warnings=warnings),
    view_role_reads=True,
)
ROLLOUTS = DEFINITION.resource
