"""TenantQuota: how much a tenant may use."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import Amounts, Count, Name, field_schema
from fathom.kinds.shape import Conditions, Meta, ObservedGeneration, Shape
from fathom.kinds.values import amount_causes, items, mapping
from fathom.model import causes, formats
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup, metadata

_PLACE = ("zone", "capacityClass")


class Limit(Shape, frozen=True):
    zone: Annotated[
        Name | None,
        field_schema("The zone that it limits, such as eu-west-c. Absent: all zones together."),
    ] = None
    capacity_class: Annotated[
        str | None,
        field_schema(
            "The CapacityClass that it limits. Absent: all classes together. Empty: ordinary capacity,"
            " without the reserved pools."
        ),
    ] = None
    resources: Annotated[
        Amounts,
        field_schema(
            'The most that the bound pods of the tenant may request together: {cpu: "40", memory: 160Gi,'
            " pods: 200}. What is not listed is not limited.",
            required=True,
        ),
    ] = msgspec.field(default_factory=dict)

    def covers(self, *, zone: str, capacity_class: str) -> bool:
        return self.zone in {None, zone} and self.capacity_class in {None, capacity_class}


class TenantQuotaSpec(Shape, frozen=True):
    limits: Annotated[
        tuple[Limit, ...],
        field_schema(
            "The limits of the tenant. Each of them applies; a pod that would exceed one waits.",
            required=True,
        ),
    ] = ()


class Usage(Shape, frozen=True):
    zone: Annotated[str, field_schema("The zone of the nodes. Absent: nodes without a zone.")] = ""
    capacity_class: Annotated[
        str, field_schema("The CapacityClass that is used. Absent: ordinary capacity.")
    ] = ""
    resources: Annotated[
        Amounts, field_schema("What is in use there, by resource: {cpu: 500m, memory: 1Gi, pods: 1}.")
    ] = msgspec.field(default_factory=dict)


class TenantQuotaStatus(Shape, frozen=True):
    used: Annotated[
        tuple[Usage, ...],
        field_schema("What the tenant uses, for each zone and capacity class in use.", maxItems=4096),
    ] = ()
    counted_at: Annotated[Count, field_schema("The revision of the ledger that the usage was read from.")] = 0
    observed_generation: ObservedGeneration = 0
    conditions: Annotated[Conditions, field_schema("fathom writes none.")] = ()


class TenantQuota(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        TenantQuotaSpec, field_schema("How much the tenant may use. People write it.", required=True)
    ] = TenantQuotaSpec()
    status: Annotated[
        TenantQuotaStatus,
        field_schema("How much the tenant uses. The API server writes it within seconds of a change."),
    ] = TenantQuotaStatus()


def validate(obj: Obj) -> list[Cause]:
    errors: list[Cause] = Causes()
    seen: list[Obj] = []
    for index, limit in enumerate(items(lookup(obj, "spec", "limits"))):
        field = f"spec.limits[{index}]"
        place = {name: value for name, value in mapping(limit).items() if name in _PLACE}
        if place in seen:
            errors.append(causes.duplicate(field, place))
        seen.append(place)
        errors += amount_causes(mapping(limit).get("resources"), f"{field}.resources")
    if reasons := formats.label_value(metadata(obj).get("name", "")):
        # The tenant is a label value, so no namespace could refer to a quota whose name is not one.
        errors += causes.each("metadata.name", metadata(obj).get("name"), reasons)
    return errors


DEFINITION = KindDefinition(
    shape=TenantQuota,
    about="How much a tenant may use, in all, by zone or by capacity class. Its name is the tenant's: a"
    " namespace names its tenant in the label fathom.dev/tenant, and is its own without it.",
    plural="tenantquotas",
    namespaced=False,
    short_names=("tq",),
    columns=(
        Column("Limits", "string", ".spec.limits[*].zone", "The zones that have limits of their own."),
        Column("Counted-At", "integer", ".status.countedAt", priority=1),
    ),
    rules=Rules(validate_create=validate),
    view_role_reads=True,
)
TENANT_QUOTAS = DEFINITION.resource
