"""The context of a placement besides the pod and the nodes: policy, quota, overrides, trust, age of the view.

The caller resolves what concerns the pods of one shape (`resolve.py` has the pure functions for that) and
passes it as a whole. Contexts are compared with `==`: a pass goes on under an equal one, so a context holds
values, not live objects.
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
    weights: Mapping[str, int] = {}  # Score -> weight, where it differs from the default.
    filters: tuple[str, ...] = ()  # The optional rules that are enabled; empty: all of them.
    disabled_filters: tuple[str, ...] = ()
    max_zone_skew: int | None = None
    preemption: bool = True
    default_spread: bool = True  # Replicas without spread constraints prefer different zones and nodes.
    max_view_age_ms: int | None = None
    regions: tuple[str, ...] = ()  # Where max_zone_skew applies; empty: everywhere.
    rollout: str = ""  # The PolicyRollout that makes it the pod's policy.

    def weight(self, score: str, own: int) -> int:
        return self.weights.get(score, own)


class QuotaLimit(msgspec.Struct, frozen=True):
    """At most this much for one tenant; None means all zones, or all classes, together."""

    needs: Needs
    zone: str | None = None
    capacity_class: str | None = None


class Quota(msgspec.Struct, frozen=True):
    """A tenant's limits. The table counts the use, from the pods it knows and assumes."""

    tenant: str
    limits: tuple[QuotaLimit, ...] = ()
    revision: int = 0


class Reserved(msgspec.Struct, frozen=True):
    """A CapacityClass: whole nodes (no `kept`), or so much of each of them."""

    name: str
    node_selector: Pairs
    kept: Needs = ()
    tenants: tuple[str, ...] = ()

    def admits(self, tenant: str) -> bool:
        return "*" in self.tenants or tenant in self.tenants


class Avoided(msgspec.Struct, frozen=True):
    """Nodes that an override keeps a pod away from: their label has one of the values, within its scope."""

    override: str  # 'NAMESPACE/NAME', for the reason.
    label: str
    values: tuple[str, ...]
    scope: Pairs = ()  # Labels that a node must have for the override to apply to it.


class Allowed(msgspec.Struct, frozen=True):
    """A reserved class that an override lets a pod use."""

    override: str
    capacity_class: str
    left: int | None = None  # How many more pods may use it; None: no bound.
    scope: Pairs = ()


Terms = tuple[NodeTerm, ...] | None  # None: every node.


class DelayedClaim(msgspec.Struct, frozen=True):
    """Where a claim that waits for its first consumer can get its volume."""

    selected: str = ""  # The only node, if one was selected before.
    offers: tuple[Terms, ...] = ()  # Else the nodes of any of these.


class Volume(msgspec.Struct, frozen=True):
    """The nodes from which a claim's volume can be reached."""

    node_terms: tuple[NodeTerm, ...] | None = None
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()  # Topology label -> values, from the volume's labels.
    unbound: bool = False  # No volume yet, and nothing will provision one.
    missing: bool = False  # No such claim.
    delayed: DelayedClaim | None = None  # No volume yet: it is bound or made where the pod goes.


class PlacementContext(msgspec.Struct, frozen=True, kw_only=True):
    policy: Policy = Policy()
    quota: Quota | None = None  # Of the pod's tenant.
    avoided: tuple[Avoided, ...] = ()
    allowed: tuple[Allowed, ...] = ()
    raised: tuple[str, ...] = ()  # Overrides that may raise it in the queue; for records, no rule reads them.
    trust_lost: Mapping[str, int] = {}  # Node -> 1..100, from failed starts. (A quarantine is a taint.)
    refused_nodes: tuple[str, ...] = ()  # Nodes where the server refused a placement that our view allows.
    volumes: Mapping[tuple[str, str], Volume] = {}  # By (namespace, claim); an absent one blocks nothing.
    view_age_ms: int = 0  # Of the oldest of the caches that placements are decided from.
    seen: Mapping[str, int] = {}  # Resource -> revision decided at; passed on to the Placement.
    tie_seed: int = 0
    holder: str = ""  # The pod whose own claims do not block it. `place` fills it in.
