"""TenantQuota: how much a tenant may use."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import REQUIRED, Amounts, Count, Name, field_schema
from fathom.kinds.shape import Conditions, Meta, Shape
from fathom.kinds.values import amount_causes, items, mapping
from fathom.model import causes, formats
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup, metadata

_PLACE = ("zone", "capacityClass")


class Limit(Shape, frozen=True):
    """At most this much. Without a zone: over all zones together; likewise the class. The class '' is
    ordinary capacity: a limit with `capacityClass: ""` does not count the reserved pools."""

    zone: Annotated[Name | None, field_schema("The zone that it limits; if absent, all zones together.")] = (
        None
    )
    capacity_class: Annotated[
        str | None, field_schema("The CapacityClass that it limits; if absent, all classes together.")
    ] = None
    resources: Annotated[
        Amounts, field_schema("The most that the tenant's bound pods may request in total.", required=True)
    ] = msgspec.field(default_factory=dict)

    def covers(self, *, zone: str, capacity_class: str) -> bool:
        return self.zone in {None, zone} and self.capacity_class in {None, capacity_class}


class TenantQuotaSpec(Shape, frozen=True):
    limits: Annotated[tuple[Limit, ...], field_schema("Every limit applies.", required=True)] = ()


class Usage(Shape, frozen=True):
    zone: str = ""
    capacity_class: str = ""
    resources: Amounts = msgspec.field(default_factory=dict)


class TenantQuotaStatus(Shape, frozen=True):
    used: Annotated[tuple[Usage, ...], field_schema(maxItems=4096)] = ()
    counted_at: Annotated[Count, field_schema("The revision of the ledger that the usage was read from.")] = 0
    observed_generation: Count = 0
    conditions: Conditions = ()


class TenantQuota(Shape, frozen=True):
    """Cluster-scoped; its name is the tenant's."""

    metadata: Meta = Meta()
    spec: Annotated[TenantQuotaSpec, REQUIRED] = TenantQuotaSpec()
    status: TenantQuotaStatus = TenantQuotaStatus()


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
