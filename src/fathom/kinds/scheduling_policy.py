"""SchedulingPolicy: how placements are judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import REQUIRED, Count, Name, field_schema
from fathom.kinds.shape import Meta, Shape
from fathom.kinds.values import items, mapping
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup, metadata

# The rules that hold where nobody has made a policy. It needs no object, and is always active.
BUILT_IN = "builtin"

# The names of the built-in rules in fathom.schedule.decide.rules. A policy that names another is refused.
FILTERS_ALWAYS = (
    "Freshness", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "Override",
    "CapacityClass", "VolumeBinding", "NodePorts", "NodeResourcesFit", "TenantQuota",
)  # fmt: skip
FILTERS_OPTIONAL = ("NodeTrust", "PodTopologySpread", "InterPodAffinity", "MaxZoneSkew")
SCORES = (
    "TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "LeastAllocated",
    "MostAllocated", "BalancedAllocation", "ImageLocality", "NodeTrust",
)  # fmt: skip

FILTERS = (*FILTERS_ALWAYS, *FILTERS_OPTIONAL)
ALWAYS_ON = "cannot be switched off: the commit insists on it"

POLICY = "fathom.dev/policy"  # On a bound pod: the policy that its placement was decided by.


class Scope(Shape, frozen=True):
    """Whom something concerns. A list that is empty leaves nobody out; those that are not must all agree."""

    tenants: tuple[Name, ...] = ()
    namespaces: tuple[Name, ...] = ()
    workloads: tuple[Name, ...] = ()
    regions: tuple[Name, ...] = ()  # Of nodes: where it holds. Whom it concerns is said by the other three.

    def includes(self, *, tenant: str, namespace: str, workloads: Iterable[str]) -> bool:
        return (
            (not self.tenants or tenant in self.tenants)
            and (not self.namespaces or namespace in self.namespaces)
            and (not self.workloads or any(name in self.workloads for name in workloads))
        )

    @property
    def narrowness(self) -> int:
        """Of two that include a pod, the narrower one holds."""
        return 4 * bool(self.workloads) + 2 * bool(self.namespaces) + bool(self.tenants)


class SchedulingPolicySpec(Shape, frozen=True):
    scope: Annotated[
        Scope, field_schema("Whom it may be rolled out to; an empty list leaves nobody out.")
    ] = Scope()
    # In order.
    filters: Annotated[
        tuple[Name, ...], field_schema("The optional rules that are on; empty: all of them.")
    ] = ()
    disabled_filters: tuple[Name, ...] = ()
    weights: Annotated[
        dict[str, Annotated[int, field_schema(minimum=0, maximum=1000)]],
        field_schema("Weights of scores; one that is not named keeps its own.", maxProperties=64),
    ] = msgspec.field(default_factory=dict)
    # Most that two zones may differ by in pods of one workload.
    max_zone_skew: Annotated[int, field_schema(minimum=1, maximum=1_000_000)] | None = None
    preemption: bool = True
    max_view_age_seconds: Count | None = None  # No placement from a view of the nodes that is older.
    description: str = ""


class SchedulingPolicy(Shape, frozen=True):
    """Cluster-scoped. One revision: its spec never changes, a change is another object."""

    metadata: Meta = Meta()
    spec: Annotated[SchedulingPolicySpec, REQUIRED] = SchedulingPolicySpec()


def validate(obj: Obj) -> list[Cause]:
    if metadata(obj).get("name") == BUILT_IN:
        return [causes.invalid("metadata.name", BUILT_IN, "is the name of the built-in policy")]
    off = items(lookup(obj, "spec", "disabledFilters"))
    return [
        causes.invalid(f"spec.disabledFilters[{index}]", name, ALWAYS_ON)
        for index, name in enumerate(off)
        if name in FILTERS_ALWAYS
    ]


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    """What a decision says it was made by must stay what it was."""
    return causes.unchanged("spec", obj.get("spec"), old.get("spec"))


def warnings(obj: Obj) -> list[str]:
    """Rules of others are known to the schedulers only: so a name that we do not know may be right."""
    spec = mapping(obj.get("spec"))
    named = (
        *(("spec.weights", name, SCORES) for name in mapping(spec.get("weights"))),
        *(("spec.filters", name, FILTERS) for name in items(spec.get("filters"))),
        *(("spec.disabledFilters", name, FILTERS) for name in items(spec.get("disabledFilters"))),
    )
    return [
        f"{field}: {name} is none of the built-in rules ({', '.join(known)});"
        " it means something only where a rule of that name is installed"
        for field, name, known in named
        if name not in known
    ]


DEFINITION = KindDefinition(
    shape=SchedulingPolicy,
    plural="schedulingpolicies",
    namespaced=False,
    short_names=("spol",),
    columns=(
        Column("Max-Zone-Skew", "integer", ".spec.maxZoneSkew"),
        Column("Workloads", "string", ".spec.scope.workloads[*]"),
        Column("Description", "string", ".spec.description", priority=1),
    ),
    rules=Rules(validate_create=validate, validate_update=validate_update, warnings=warnings),
    view_role_reads=True,
)
POLICIES = DEFINITION.resource
