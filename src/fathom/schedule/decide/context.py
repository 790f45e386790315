"""What a placement is decided under, besides the pod and the nodes: the policy, quotas, overrides, reserved
capacity, what is known of nodes' reliability, how fresh the view is. The caller resolves what concerns one
shape's pods (`policy.py` has the pure functions for that) and hands it in whole.

A Context is compared with `==`: equal ones let a pass be continued, so it holds values, not live objects.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.schedule.decide.shape import Needs, NodeTerm, Pairs

# kube-scheduler's weights, and ours after them.
WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "LeastAllocated": 1,
    "MostAllocated": 0,
    "BalancedAllocation": 1,
    "ImageLocality": 1,
    "NodeTrust": 4,
}


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One SchedulingPolicy as the rules read it."""

    name: str = "builtin"
    revision: int = 0
    weights: Mapping[str, int] = {}  # Score -> weight, where it differs from its own.
    filters: tuple[str, ...] = ()  # The optional rules that are on; empty: all of them.
    disabled_filters: tuple[str, ...] = ()
    max_zone_skew: int | None = None
    preemption: bool = True
    default_spread: bool = True  # Replicas of a workload that says nothing prefer other zones and nodes.
    max_view_age_ms: int | None = None
    regions: tuple[str, ...] = ()  # Where max_zone_skew holds; empty: everywhere.

    def weight(self, score: str, own: int) -> int:
        return self.weights.get(score, own)


class QuotaLimit(msgspec.Struct, frozen=True):
    """At most this much for one tenant; None is every zone, or every class, taken together."""

    needs: Needs
    zone: str | None = None
    capacity_class: str | None = None


class Quota(msgspec.Struct, frozen=True):
    """A tenant's limits. What is used is counted by the table, from the pods it knows and assumes."""

    tenant: str
    limits: tuple[QuotaLimit, ...] = ()
    revision: int = 0


class Reserved(msgspec.Struct, frozen=True):
    """A CapacityClass: nodes set aside whole (no `kept`), or so much of each of them."""

    name: str
    node_selector: Pairs
    kept: Needs = ()
    tenants: tuple[str, ...] = ()

    def admits(self, tenant: str) -> bool:
        return "*" in self.tenants or tenant in self.tenants


class Avoided(msgspec.Struct, frozen=True):
    """What an override keeps a pod away from: nodes whose label has one of the values, within its scope."""

    override: str  # 'NAMESPACE/NAME', for the reason.
    label: str
    values: tuple[str, ...]
    scope: Pairs = ()  # Labels that a node must have for the override to hold there.


class Allowed(msgspec.Struct, frozen=True):
    """A reserved class that an override opens."""

    override: str
    capacity_class: str
    left: int | None = None  # How many more pods may use it; None: no bound.
    scope: Pairs = ()


class Volume(msgspec.Struct, frozen=True):
    """Where a claim's volume can be reached from."""

    node_terms: tuple[NodeTerm, ...] | None = None
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()  # Topology label -> values, from the volume's labels.
    unbound: bool = False  # No volume yet, and none will come by itself.
    missing: bool = False  # No such claim.


class PlacementContext(msgspec.Struct, frozen=True, kw_only=True):
    policy: Policy = Policy()
    quota: Quota | None = None  # The pod's tenant's.
    avoided: tuple[Avoided, ...] = ()
    allowed: tuple[Allowed, ...] = ()
    trust_lost: Mapping[str, int] = {}  # Node -> 1..100, from failed starts. (A quarantine is a taint.)
    doubted: tuple[str, ...] = ()  # Nodes that have refused a placement which our view allows.
    volumes: Mapping[tuple[str, str], Volume] = {}  # (namespace, claim); one that is not here is no obstacle.
    view_age_ms: int = 0  # Of the oldest kind that placements are decided from.
    seen: Mapping[str, int] = {}  # Resource -> revision decided at; passed on to the Placement.
    tie_seed: int = 0
    holder: str = ""  # The pod whose own claims are no obstacle. `place` fills it in.
