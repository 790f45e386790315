"""SchedulingPolicy: which filters are enabled, how scores are weighted, and limits on placements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import Count, Name, field_schema
from fathom.kinds.shape import Meta, Shape
from fathom.kinds.values import items, mapping
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup, metadata

# The policy for pods without another one. It needs no object, and is always active.
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
ALWAYS_ON = "cannot be disabled: every binding must pass this filter"

POLICY = "fathom.dev/policy"  # On a bound pod: the policy that its placement was decided by.


class Scope(Shape, frozen=True):
    """Which pods something applies to: all of the lists must match."""

    tenants: Annotated[tuple[Name, ...], field_schema("Pods of these tenants. Empty: of every tenant.")] = ()
    namespaces: Annotated[
        tuple[Name, ...], field_schema("Pods in these namespaces. Empty: in every namespace.")
    ] = ()
    workloads: Annotated[
        tuple[Name, ...],
        field_schema("Pods of these workloads, by name: risk-api. Empty: of every workload."),
    ] = ()
    regions: Annotated[
        tuple[Name, ...],
        field_schema(
            "Regions of nodes in which maxZoneSkew applies. Empty: in every region. It selects no pods, and"
            " has no effect in a PolicyRollout."
        ),
    ] = ()

    def includes(self, *, tenant: str, namespace: str, workloads: Iterable[str]) -> bool:
        return (
            (not self.tenants or tenant in self.tenants)
            and (not self.namespaces or namespace in self.namespaces)
            and (not self.workloads or any(name in self.workloads for name in workloads))
        )

    @property
    def narrowness(self) -> int:
        """Of two scopes that include a pod, the narrower one applies."""
        return 4 * bool(self.workloads) + 2 * bool(self.namespaces) + bool(self.tenants)


class SchedulingPolicySpec(Shape, frozen=True):
    scope: Annotated[
        Scope,
        field_schema(
            "The pods that it is meant for. A PolicyRollout has the scope that selects pods; here only"
            " regions has an effect."
        ),
    ] = Scope()
    filters: Annotated[
        tuple[Name, ...],
        field_schema("The optional filters that are enabled, such as MaxZoneSkew. Empty: all of them."),
    ] = ()
    disabled_filters: Annotated[
        tuple[Name, ...],
        field_schema("Optional filters that are disabled, such as NodeTrust. Other filters cannot be."),
    ] = ()
    weights: Annotated[
        dict[str, Annotated[int, field_schema(minimum=0, maximum=1000)]],
        field_schema(
            "Weights of scores by name: {LeastAllocated: 2}. 0 disables one; a score that is not listed keeps"
            " its default weight.",
            maxProperties=64,
        ),
    ] = msgspec.field(default_factory=dict)
    max_zone_skew: (
        Annotated[
            int,
            field_schema(
                "By how many pods of one workload two zones may differ at most. Absent: no limit.",
                minimum=1,
                maximum=1_000_000,
            ),
        ]
        | None
    ) = None
    preemption: Annotated[
        bool, field_schema("Whether pods may evict pods of a lower priority. Default: true.")
    ] = True
    max_view_age_seconds: Annotated[
        Count | None,
        field_schema(
            "No pod is placed while the scheduler's view of the cluster is older, in seconds. Absent: no"
            " limit."
        ),
    ] = None
    description: Annotated[
        str, field_schema("What the policy is for, for people. `kubectl get -o wide` shows it.")
    ] = ""


class SchedulingPolicy(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        SchedulingPolicySpec,
        field_schema(
            "The rules. People write it once; it never changes, a change is another object.", required=True
        ),
    ] = SchedulingPolicySpec()


def validate(obj: Obj) -> list[Cause]:
    if metadata(obj).get("name") == BUILT_IN:
        return [causes.invalid("metadata.name", BUILT_IN, "is the name of the built-in policy")]
    disabled = items(lookup(obj, "spec", "disabledFilters"))
    return [
        causes.invalid(f"spec.disabledFilters[{index}]", name, ALWAYS_ON)
        for index, name in enumerate(disabled)
        if name in FILTERS_ALWAYS
    ]


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    """The spec is immutable: decisions name the policy that they were made by."""
    return causes.unchanged("spec", obj.get("spec"), old.get("spec"))


def warnings(obj: Obj) -> list[str]:
    """Only schedulers know users' own rules, so an unknown name may be right: it gets a warning."""
    spec = mapping(obj.get("spec"))
    named = (
        *(("spec.weights", name, SCORES) for name in mapping(spec.get("weights"))),
        *(("spec.filters", name, FILTERS) for name in items(spec.get("filters"))),
        *(("spec.disabledFilters", name, FILTERS) for name in items(spec.get("disabledFilters"))),
    )
    return [
        f"{field}: {name} is not a built-in rule ({', '.join(built_in_rules)});"
        " it has an effect only where a rule of that name is installed"
        for field, name, built_in_rules in named
        if name not in built_in_rules
    ]


DEFINITION = KindDefinition(
    shape=SchedulingPolicy,
    about="Which optional filters of the scheduler are enabled, how scores are weighted, and limits on"
    " placements. A PolicyRollout says which pods it applies to.",
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
