"""SteeringLimits: how much a SchedulerOverride may concern, alone and together with those in force that have
the same effect, how long it may last, and whether risky ones need a second person. The object `default` in
fathom's own namespace has them; without it defaults hold."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import Count, Name, Percent, field_schema, one_of
from fathom.kinds.shape import Meta, Shape
from fathom.kinds.values import duration_causes
from fathom.model import causes
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Key, Obj, key_of, lookup

LIMITS_KEY = Key(SYSTEM_NAMESPACE, "default")
OFF, ON = "off", "on"


class SteeringLimitsSpec(Shape, frozen=True):
    """The defaults let an operator drain a zone of a hundred nodes, and stop what is larger by mistake."""

    max_pods: Annotated[
        Count,
        field_schema(
            "How many pods overrides of the same effect may concern, alone and together. Default: 1000."
        ),
    ] = 1000
    max_nodes: Annotated[
        Count, field_schema("How many nodes overrides may cordon or drain, alone and together. Default: 100.")
    ] = 100
    max_zone_percent: Annotated[
        Percent,
        field_schema(
            "The largest share of a zone's nodes, in percent, that overrides may cordon or drain. Default:"
            " 100."
        ),
    ] = 100
    max_tenants: Annotated[
        Count,
        field_schema(
            "How many tenants may have pods that overrides of the same effect concern. Default: 20."
        ),
    ] = 20
    max_below_minimum: Annotated[
        Count | None,
        field_schema(
            "How many workloads drains may leave below their disruption budget, or without a ready pod."
            " Absent: any number."
        ),
    ] = None
    max_extensions: Annotated[
        Count,
        field_schema("How often the end of an override may be put off by a longer expiresAfter. Default: 3."),
    ] = 3
    max_total_duration: Annotated[
        Name,
        field_schema("How long an override may last with all its extensions, such as 8h. Default: 168h."),
    ] = "168h"
    approvals: Annotated[
        str,
        one_of(OFF, ON),
        field_schema(
            "Whether risky overrides wait for a second person. on: a drain, a traffic shift, approved"
            " repairs, and reserved capacity for many pods, need approval; off, the default: none does."
            " In YAML it needs quotes."
        ),
    ] = OFF
    reserved_replicas_without_approval: Annotated[
        Count,
        field_schema(
            "How many pods an override may let use reserved capacity without approval. Default: 10."
        ),
    ] = 10


class SteeringLimits(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        SteeringLimitsSpec,
        field_schema("The limits. What is absent has its default; people write it.", required=True),
    ] = SteeringLimitsSpec()


def validate(obj: Obj) -> list[Cause]:
    errors = duration_causes(lookup(obj, "spec", "maxTotalDuration"), "spec.maxTotalDuration")
    key = key_of(obj)
    if key != LIMITS_KEY:
        where = f"{LIMITS_KEY.namespace}/{LIMITS_KEY.name}"
        why = f"only {where} is read: no other SteeringLimits would have an effect"
        errors.append(causes.invalid("metadata.name", f"{key.namespace}/{key.name}", why))
    return errors


DEFINITION = KindDefinition(
    shape=SteeringLimits,
    about="How much a SchedulerOverride may concern, how long it may last, and whether risky ones need a"
    " second person. Only the object default in fathom-system is read; without it the defaults apply.",
    plural="steeringlimits",
    namespaced=True,
    columns=(
        Column("Approvals", "string", ".spec.approvals"),
        Column("Pods", "integer", ".spec.maxPods"),
        Column("Nodes", "integer", ".spec.maxNodes"),
        Column("Zone%", "integer", ".spec.maxZonePercent"),
        Column("Tenants", "integer", ".spec.maxTenants"),
        Column("Extensions", "integer", ".spec.maxExtensions"),
        Column("Total", "string", ".spec.maxTotalDuration"),
    ),
    rules=Rules(validate_create=validate),
    view_role_reads=True,
)
STEERING_LIMITS = DEFINITION.resource
