"""Whether a holding fits on a node and within a tenant's limits. Pure; None is yes, else what is short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fathom.api.ledger.accounts import NodeBook, TenantBook
from fathom.api.ledger.holdings import PODS, Account, Counts, Holding, counts_of
from fathom.kinds.capacity_class import CapacityClass
from fathom.kinds.tenant_quota import Limit, TenantQuota
from fathom.model.objects import Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.model.well_known import ZONE_LABEL

EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})


class NodeRoom(msgspec.Struct, frozen=True):
    """The facts about a node that binding needs: computed once for each of its revisions."""

    name: str
    uid: str
    zone: str
    labels: dict[str, str]
    allocatable: Counts | None  # None: the node has never reported it, so everything fits.
    unschedulable: bool
    deleting: bool


def node_facts(node: Obj) -> NodeRoom:
    listed = lookup(node, "status", "allocatable") or lookup(node, "status", "capacity")
    labels = labels_of(node)
    return NodeRoom(
        name=str(metadata(node).get("name") or ""),
        uid=uid_of(node),
        zone=labels.get(ZONE_LABEL, ""),
        labels=labels,
        allocatable=counts_of(listed) if listed else None,
        unschedulable=bool(lookup(node, "spec", "unschedulable")),
        deleting=is_deleting(node),
    )


def lacks_room(
    facts: NodeRoom,
    book: NodeBook,
    wanted: Holding,
    *,
    released: Holding | None,
    classes: Sequence[CapacityClass],
) -> str | None:
    """`released` is released in the same commit; if it is on the same node, its room is available to
    `wanted`."""
    if facts.allocatable is None:
        return None
    released_counts = released.counts if released is not None and released.node == facts.name else {}
    kept = _kept_for_others(facts, book, wanted.account.capacity_class, classes)
    for name, amount in wanted.counts.items():
        limit = facts.allocatable.get(name)
        if limit is None:
            if name == PODS:
                continue
            limit = 0
        held = book.requested.get(name, 0) - released_counts.get(name, 0)
        if held + amount > limit - kept.get(name, 0):
            return _room_message(name, amount, held, limit, kept.get(name, 0))
    return None


def _kept_for_others(
    facts: NodeRoom, book: NodeBook, own_class: str, classes: Sequence[CapacityClass]
) -> Counts:
    """Room that other capacity classes keep free on the node and do not use yet."""
    kept: Counts = {}
    for capacity_class in classes:
        if (
            capacity_class.name == own_class
            or capacity_class.exclusive
            or not capacity_class.holds(facts.labels)
        ):
            continue
        used = book.classes.get(capacity_class.name, {})
        for name, amount in counts_of(capacity_class.spec.resources).items():
            kept[name] = kept.get(name, 0) + max(0, amount - used.get(name, 0))
    return kept


def _room_message(name: str, amount: int, held: int, limit: int, kept: int) -> str:
    unit = "m" if name == "cpu" else ""
    total = f"{limit}{unit}" + (f" ({kept}{unit} of it kept for a capacity class)" if kept else "")
    return f"{name}: {amount}{unit} more do not fit: {held}{unit} of {total} are taken"


def taken_port(book: NodeBook, ports: Iterable[str]) -> str | None:
    """The first of the ports that is in use on the node. A wildcard address conflicts with every other."""
    if not book.ports:
        return None
    taken: dict[tuple[str, str], set[str]] = {}
    for other in book.ports:
        protocol, address, number = other.split("/")
        taken.setdefault((protocol, number), set()).add(address)
    for port in ports:
        protocol, address, number = port.split("/")
        others = taken.get((protocol, number))
        if others and (address in others or address in EVERY_ADDRESS or others & EVERY_ADDRESS):
            return port
    return None


def exceeds_quota(
    quota: TenantQuota | None, book: TenantBook, wanted: Holding, *, released: Holding | None = None
) -> str | None:
    """A limit that was lowered below its use still lets holdings go. A pod that takes over its reservation is
    checked like a new pod: a promise under an older limit does not bind."""
    if quota is None:
        return None
    account = wanted.account
    for limit in quota.spec.limits:
        if not limit.covers(zone=account.zone, capacity_class=account.capacity_class):
            continue
        for name, most in counts_of(limit.resources).items():
            amount = wanted.counts.get(name, 0)
            back = _given_back(limit, released, account.tenant, name)
            used = _used(book, limit, name) - back
            if amount and used + amount > most:
                return _quota_message(account, limit, name, amount=amount, used=used, most=most)
    return None


def _given_back(limit: Limit, released: Holding | None, tenant: str, name: str) -> int:
    if released is None or released.account.tenant != tenant:
        return 0
    place = released.account
    covered = limit.covers(zone=place.zone, capacity_class=place.capacity_class)
    return released.counts.get(name, 0) if covered else 0


def _used(book: TenantBook, limit: Limit, name: str) -> int:
    total = 0
    for place, counts in book.used.items():
        zone, _, capacity_class = place.partition("/")
        if limit.covers(zone=zone, capacity_class=capacity_class):
            total += counts.get(name, 0)
    return total


def _quota_message(account: Account, limit: Limit, name: str, *, amount: int, used: int, most: int) -> str:
    unit = "m" if name == "cpu" else ""
    place = "-".join(part for part in (account.tenant, limit.zone or "", limit.capacity_class or "") if part)
    return f"quota/{place}: {name}: {amount}{unit} more do not fit: {used}{unit} of {most}{unit} are used"
