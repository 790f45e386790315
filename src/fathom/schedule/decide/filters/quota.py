"""The tenant's quota, per zone and capacity class. The table counts the use: bound and assumed pods and
Reservations. The ledger decides at the commit; this rule saves bind requests that it would refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fathom.model.well_known import ZONE_LABEL
from fathom.schedule.decide.context import PlacementContext, Quota, QuotaLimit
from fathom.schedule.decide.filters.layer import Layer, Moved, moved
from fathom.schedule.decide.filters.steering import class_on
from fathom.schedule.decide.node_columns import Ids
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.verdicts import FITS, Codes, Reason


def quotas(shape: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Sequence[Layer]:
    if world.quota is None or not world.quota.limits:
        return ()
    return [QuotaLayer(shape, rows, world, world.quota, reasons)]


def quota_reason(tenant: str, limit: QuotaLimit) -> str:
    """The limit's name, as the ledger has it."""
    return "quota/" + "-".join(part for part in (tenant, limit.zone, limit.capacity_class) if part)


def _full(name: str, tenant: str) -> Reason:
    return Reason("TenantQuota", (name,), resolvable=False, pending=name, about=tenant)


def covers(limit: QuotaLimit, zone: str, capacity_class: str) -> bool:
    return limit.zone in {None, zone} and limit.capacity_class in {None, capacity_class}


def used(table: NodeTable, limit: QuotaLimit, tenant: str, resource: str) -> int:
    return sum(
        amounts.get(resource, 0)
        for (zone, capacity_class), amounts in table.tally.used.get(tenant, {}).items()
        if covers(limit, zone, capacity_class)
    )


class QuotaLayer:
    """A domain is a zone and the class that the pod would draw on there."""

    def __init__(
        self, shape: PodShape, rows: Rows, world: PlacementContext, quota: Quota, reasons: Reasons
    ) -> None:
        self._shape, self._table, self._world, self._quota = shape, rows.table, world, quota
        self._codes = [
            reasons.code(_full(quota_reason(quota.tenant, limit), quota.tenant)) for limit in quota.limits
        ]
        places: dict[tuple[str, str], int] = {}
        self.domains = self._places(rows, places)
        self._domain_of = list(places)
        self.codes: Codes = self._judged()

    def _places(self, rows: Rows, places: dict[tuple[str, str], int]) -> Ids:
        """Nodes of one zone and one exclusive class are one domain. Where classes keep a part of nodes and an
        override opens one, each node is looked at."""
        table = self._table
        if any(reserved_class.kept for reserved_class in table.reserved) and self._world.allowed:
            first = inverse = np.arange(rows.size)
        else:
            classes = len(table.reserved) + 1
            joint = rows.label_ids(ZONE_LABEL).astype(np.int64) * classes + table.exclusive[rows.index]
            _, first, inverse = np.unique(joint, return_index=True, return_inverse=True)
        numbers = np.zeros(first.size, dtype=np.int32)
        for at, row in enumerate(first.tolist()):
            place = (table.zones[row], class_on(self._shape, table, row, self._world))
            numbers[at] = places.setdefault(place, len(places))
        return numbers[inverse]

    def _judged(self) -> Codes:
        full = [self._is_full(limit) for limit in self._quota.limits]
        codes = np.zeros(max(1, len(self._domain_of)), dtype=np.uint8)
        for at, (zone, capacity_class) in enumerate(self._domain_of):
            codes[at] = next(
                (
                    code
                    for limit, code, is_full in zip(self._quota.limits, self._codes, full, strict=True)
                    if is_full and covers(limit, zone, capacity_class)
                ),
                FITS,
            )
        return codes

    def _is_full(self, limit: QuotaLimit) -> bool:
        return next(self._short(limit), None) is not None

    def _short(self, limit: QuotaLimit) -> Iterator[tuple[str, int]]:
        """The resources by which the pod would exceed the limit, and by how much."""
        for name, most in limit.needs:
            requested = self._shape.amount(name)
            over = self._used(limit, name) + requested - most if requested else 0
            if over > 0:
                yield name, over

    def short_at(self, domain: int) -> list[tuple[QuotaLimit, str, int]]:
        """All that would have to be granted for one domain."""
        place = self._domain_of[domain]
        limits = [limit for limit in self._quota.limits if covers(limit, *place)]
        return [(limit, name, over) for limit in limits for name, over in self._short(limit)]

    def _used(self, limit: QuotaLimit, resource: str) -> int:
        own = self._table.claims.get(self._world.holder)
        total = used(self._table, limit, self._quota.tenant, resource)
        if own is None or own.tenant != self._quota.tenant:
            return total
        zone = self._table.zones[self._table.row_of[own.node]] if own.node in self._table.row_of else ""
        return total - dict(own.needs).get(resource, 0) * covers(limit, zone, own.capacity_class)

    def placed(self, row: int) -> Moved:
        """The table has counted the pod already."""
        old, self.codes = self.codes, self._judged()
        return moved(old, self.codes)
