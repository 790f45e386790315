"""SchedulingPolicy and PolicyRollout: how placements are judged, and which revision holds for whom."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec

from fathom.model.own.shape import Condition, Meta, Shape

POLICIES = "schedulingpolicies.fathom.dev"
ROLLOUTS = "policyrollouts.fathom.dev"

# The rules that hold where nobody has made a policy. It needs no object, and is always active.
BUILT_IN = "builtin"

# The built-in rules by name, as fathom.schedule.rules has them: a policy that names another is told so.
FILTERS_ALWAYS = (
    "Freshness", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "Override",
    "CapacityClass", "VolumeBinding", "NodePorts", "NodeResourcesFit", "TenantQuota",
)  # fmt: skip
FILTERS_OPTIONAL = ("NodeTrust", "PodTopologySpread", "InterPodAffinity", "MaxZoneSkew")
SCORES = (
    "TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "LeastAllocated",
    "MostAllocated", "BalancedAllocation", "ImageLocality", "NodeTrust",
)  # fmt: skip

POLICY = "fathom.dev/policy"  # On a bound pod: the policy that its placement was decided by.


class Scope(Shape, frozen=True):
    """Whom something concerns. A list that is empty leaves nobody out; those that are not must all agree."""

    tenants: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()  # Of nodes: where it holds. Whom it concerns is said by the other three.

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
    scope: Scope = Scope()
    filters: tuple[str, ...] = ()  # The optional rules that are on, in order; empty: all of them.
    disabled_filters: tuple[str, ...] = ()
    weights: dict[str, int] = msgspec.field(
        default_factory=dict
    )  # Score -> weight; a score that is not named keeps its own.
    max_zone_skew: int | None = None  # Most that two zones may differ by in pods of one workload.
    preemption: bool = True
    max_view_age_seconds: int | None = None  # No placement from a view of the nodes that is older.
    description: str = ""


class SchedulingPolicy(Shape, frozen=True):
    """Cluster-scoped. One revision: its spec never changes, a change is another object."""

    metadata: Meta = Meta()
    spec: SchedulingPolicySpec = SchedulingPolicySpec()


class Step(Shape, frozen=True):
    percent: int = 100
    hold: str = "0s"  # How long this share stays before the next step.


class Gates(Shape, frozen=True):
    no_pending_regression: bool = True
    signals_max_age: str = "30s"
    observed_by: tuple[str, ...] = ("scheduler",)  # Whose caches must have reached the activation's revision.


class PolicyRolloutSpec(Shape, frozen=True):
    to: str = ""
    from_: str = msgspec.field(default="", name="from")
    scope: Scope = Scope()
    steps: tuple[Step, ...] = ()
    gates: Gates = Gates()
    automatic_rollback: bool = True
    paused: bool = False


class Observer(Shape, frozen=True):
    controller: str = ""
    observed_generation: int = 0
    revision: int = 0  # That its caches had reached when it said so.
    time: str = ""
    lease: str = ""  # namespace/name; of those who share one, one works at a time.
    epoch: int = 0  # Of that lease. Another term has other caches.


class PolicyRolloutStatus(Shape, frozen=True):
    phase: str = ""  # Pending, Canary, Complete, RolledBack.
    active: str = ""  # The policy that holds for the scope.
    canary: str = ""  # The one that holds for `percent` of it instead.
    percent: int = 0
    step: int = 0
    activation_revision: int = 0  # Of the store, when the present step began.
    step_started_at: str = ""
    baked_seconds: int = 0  # For which the step was looked at with fresh signals; as last written down.
    observed_generation: int = 0
    observed_by: tuple[Observer, ...] = ()
    conditions: tuple[Condition, ...] = ()


class PolicyRollout(Shape, frozen=True):
    """Cluster-scoped: which revision is active for which scope."""

    metadata: Meta = Meta()
    spec: PolicyRolloutSpec = PolicyRolloutSpec()
    status: PolicyRolloutStatus = PolicyRolloutStatus()


def active_policies(rollout: PolicyRollout) -> tuple[str, ...]:
    """Names of the policies that a placement in the rollout's scope may have been decided by. Until somebody
    carries the rollout out, what it starts from holds."""
    if rollout.metadata.deletion_timestamp:
        return ()
    base = rollout.status.active or ("" if rollout.status.phase else rollout.spec.from_)
    canary = rollout.status.canary if rollout.status.percent else ""
    return tuple(name for name in dict.fromkeys((base, canary)) if name)


def policy_in(rollout: PolicyRollout, identity: str) -> str:
    """The one for this workload or pod: a fixed share of identities is the canary, the same in every process.
    '' means that the rollout says nothing."""
    names = active_policies(rollout)
    status = rollout.status
    if status.canary in names and zlib.crc32(identity.encode()) % 100 < status.percent:
        return status.canary
    return names[0] if names and names[0] != status.canary else ""
