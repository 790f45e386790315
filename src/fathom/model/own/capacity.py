"""TenantQuota, CapacityClass and Reservation: who may have how much of what, and what is held for whom."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.model.own.shape import Amount, Condition, Meta, Shape
from fathom.model.own.times import moment_ns

TENANT_QUOTAS = "tenantquotas.fathom.dev"
CAPACITY_CLASSES = "capacityclasses.fathom.dev"
RESERVATIONS = "reservations.fathom.dev"

# On a pod, given at creation or by the binding: the reserved pool that it draws on.
CAPACITY_CLASS = "fathom.dev/capacity-class"

# Annotations of a workload's pod, given at its creation: what a reservation for it is named after. There is a
# ReplicaSet for each template, so that its pods need no generation; other controllers may give one.
SLOT, GENERATION = "fathom.dev/slot", "fathom.dev/generation"

# Reservations in these phases hold capacity themselves. A bound one's pod does; the rest hold nothing.
HOLDING = frozenset({"", "Active"})
VOID = frozenset({"Released", "Expired"})

# Annotations of a reservation: the pod that it is held for. Nobody else is bound on its strength.
HOLDER, HOLDER_UID = "fathom.dev/pod", "fathom.dev/pod-uid"

# Annotation of a reservation that only the server writes: the UID of the pod for which the namespace's
# ResourceQuotas are charged already.
CHARGED_WITH = "fathom.dev/charged-with-pod"

ANYONE = "*"


class Limit(Shape, frozen=True):
    """At most this much. Without a zone: over all zones together; likewise the class. The class '' is
    ordinary capacity: a limit that says `capacityClass: ""` leaves the reserved pools out."""

    resources: dict[str, Amount] = msgspec.field(default_factory=dict)
    zone: str | None = None
    capacity_class: str | None = None

    def covers(self, *, zone: str, capacity_class: str) -> bool:
        return self.zone in {None, zone} and self.capacity_class in {None, capacity_class}


class TenantQuotaSpec(Shape, frozen=True):
    limits: tuple[Limit, ...] = ()


class Usage(Shape, frozen=True):
    resources: dict[str, Amount] = msgspec.field(default_factory=dict)
    zone: str = ""
    capacity_class: str = ""


class TenantQuotaStatus(Shape, frozen=True):
    used: tuple[Usage, ...] = ()
    counted_at: int = 0  # The revision of the ledger that `used` was read from.
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class TenantQuota(Shape, frozen=True):
    """Cluster-scoped; its name is the tenant's."""

    metadata: Meta = Meta()
    spec: TenantQuotaSpec = TenantQuotaSpec()
    status: TenantQuotaStatus = TenantQuotaStatus()


class CapacityClassSpec(Shape, frozen=True):
    """Which capacity is set aside, and for whom.

    `nodeSelector` names the nodes of the pool. Without `resources` the whole nodes are the pool's: no pod of
    another class goes there. With `resources`, that much of each of them is kept free for the class."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    resources: dict[str, Amount] = msgspec.field(default_factory=dict)
    tenants: tuple[str, ...] = ()  # Who may use it at any time; '*' is everyone. Others need an override.
    description: str = ""


class CapacityClass(Shape, frozen=True):
    """Cluster-scoped; its name is what pods, reservations, limits and overrides call it."""

    metadata: Meta = Meta()
    spec: CapacityClassSpec = CapacityClassSpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    def holds(self, node_labels: Mapping[str, str]) -> bool:
        """Whether a node belongs to the pool. A class that selects nothing has no nodes."""
        wanted = self.spec.node_selector
        return bool(wanted) and all(node_labels.get(name) == value for name, value in wanted.items())

    @property
    def exclusive(self) -> bool:
        return not self.spec.resources

    def admits(self, tenant: str) -> bool:
        return ANYONE in self.spec.tenants or tenant in self.spec.tenants


class WorkloadRef(Shape, frozen=True):
    uid: str = ""
    name: str = ""
    generation: int = 0


class PodRef(Shape, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class ReservationSpec(Shape, frozen=True):
    workload: WorkloadRef = WorkloadRef()
    slot: int = 0
    intent: str = ""
    node_name: str = ""
    resources: dict[str, Amount] = msgspec.field(default_factory=dict)
    capacity_class: str = ""
    awaits: tuple[PodRef, ...] = ()  # Who is leaving the node: their room counts as there.
    expires_at: str | None = None


class ReservationStatus(Shape, frozen=True):
    phase: str = ""  # '' until somebody has confirmed it; Active, Bound, Released, Expired.
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class Reservation(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()

    @property
    def intent(self) -> str:
        """At most one reservation may be active for it."""
        spec = self.spec
        return f"{spec.workload.uid}/{spec.slot}/{spec.workload.generation}/{spec.intent}"


def reservation_usable(reservation: Reservation, now_ns: int) -> bool:
    """Whether a pod may still be bound on its strength."""
    expires_ns = moment_ns(reservation.spec.expires_at)
    if reservation.metadata.deletion_timestamp or reservation.status.phase not in HOLDING:
        return False
    return expires_ns is None or now_ns < expires_ns
