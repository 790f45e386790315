"""What placements must never do, whoever made them from whatever view: fill a node or a quota beyond its
limit, leave the ledger wrong. And what they must do in the end: no pod waits that has a place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.api.ledger.books import NODE_BOOKS, TENANT_BOOKS, NodeBook, TenantBook
from fathom.api.ledger.counting import fields_of
from fathom.api.ledger.holdings import Counts, Holding, counts_of, pod_holding, reservation_holding
from fathom.model.objects import Obj, is_deleting, key_of, lookup
from fathom.model.own import RESERVATIONS, TENANT_QUOTAS, TenantQuota, read
from fathom.model.podresources import is_terminal
from fathom.schedule.kinds import KINDS
from fathom.schedule.known import Known
from fathom.sim.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world import World


def holding_of(resource: str, obj: Obj | None) -> Holding | None:
    return pod_holding(obj) if resource == "pods" else reservation_holding(obj)


class LedgerIsTheSum(Checker):
    """Of every node's and tenant's book, after every commit as a whole: told when the next one begins."""

    name = "ledger equals the sum of its pods"

    def __init__(self) -> None:
        self._nodes: dict[str, NodeBook] = {}  # What the sums are.
        self._tenants: dict[str, TenantBook] = {}
        self._written: dict[tuple[str, str], Obj] = {}  # What the ledger says.
        self._revision = 0
        self._moved: dict[tuple[str, str], None] = {}

    def commit(self, change: Seen) -> Found:
        found = self._judged() if change.revision != self._revision else None
        self._revision = change.revision
        if change.resource in {NODE_BOOKS, TENANT_BOOKS}:
            place = (change.resource, change.key.name)
            self._written[place] = fields_of(change.new) if change.new is not None else {}
            self._moved[place] = None
        elif change.resource in {"pods", RESERVATIONS}:
            self._count(holding_of(change.resource, change.old), -1)
            self._count(holding_of(change.resource, change.new), 1)
        return found

    def _count(self, holding: Holding | None, sign: int) -> None:
        if holding is None:
            return
        self._nodes.setdefault(holding.node, NodeBook()).post(holding, sign)
        self._tenants.setdefault(holding.account.tenant, TenantBook()).post(holding, sign)
        self._moved[NODE_BOOKS, holding.node] = None
        self._moved[TENANT_BOOKS, holding.account.tenant] = None

    def settled(self, world: World) -> Iterable[str | Finding]:
        found = self._judged()
        return () if found is None else (found,)

    def _judged(self) -> Finding | None:
        moved, self._moved = self._moved, {}
        for resource, name in moved:
            books: dict[str, NodeBook] | dict[str, TenantBook]
            books = self._nodes if resource == NODE_BOOKS else self._tenants
            book = books.get(name)
            sums = book.fields() if book is not None else {}
            says = self._written.get((resource, name), {})
            if sums != says:
                return Finding(f"the book of {name} says {says}, the sum is {sums}", (f"{resource}/{name}",))
        return None


class NodesWithinTheirLimits(Checker):
    """A pod that is bound to a node fits there. A node that shrinks below its use is nobody's fault, nor is a
    pod that was created with its node: it was never scheduled."""

    name = "no node over its limit"

    def __init__(self) -> None:
        self._room: dict[str, Counts] = {}
        self._books: dict[str, NodeBook] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == "nodes":
            self._room[change.key.name] = counts_of(lookup(change.new or {}, "status", "allocatable"))
        if change.resource not in {"pods", RESERVATIONS}:
            return None
        old, new = holding_of(change.resource, change.old), holding_of(change.resource, change.new)
        if old == new:
            return None
        for holding, sign in ((old, -1), (new, 1)):
            if holding is not None:
                self._books.setdefault(holding.node, NodeBook()).post(holding, sign)
        return self._over(new.node) if new is not None and change.old is not None else None

    def _over(self, node: str) -> str | None:
        room = self._room.get(node)
        for name, amount in self._books[node].requested.items():
            if room and amount > room.get(name, 0):
                return f"{node} has {name}: {room.get(name, 0)}, its pods ask for {amount}"
        return None


class TenantsWithinTheirQuota(Checker):
    """A pod that is bound is within its tenant's limits, as they are then."""

    name = "no tenant over its quota"

    def __init__(self) -> None:
        self._quotas: dict[str, TenantQuota] = {}
        self._books: dict[str, TenantBook] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == TENANT_QUOTAS:
            if change.new is None:
                self._quotas.pop(change.key.name, None)
            else:
                self._quotas[change.key.name] = read(TenantQuota, change.new)
        if change.resource not in {"pods", RESERVATIONS}:
            return None
        old, new = holding_of(change.resource, change.old), holding_of(change.resource, change.new)
        if old == new:
            return None
        for holding, sign in ((old, -1), (new, 1)):
            if holding is not None:
                self._books.setdefault(holding.account.tenant, TenantBook()).post(holding, sign)
        return self._over(new) if new is not None and change.old is not None else None

    def _over(self, new: Holding) -> str | None:
        quota = self._quotas.get(new.account.tenant)
        for limit in quota.spec.limits if quota is not None else ():
            if not limit.covers(zone=new.account.zone, capacity_class=new.account.capacity_class):
                continue
            for name, most in counts_of(limit.resources).items():
                used = sum(
                    counts.get(name, 0)
                    for place, counts in self._books[new.account.tenant].used.items()
                    if limit.covers(zone=place.split("/")[0], capacity_class=place.split("/")[1])
                )
                if used > most:
                    return f"{new.account.tenant} may have {name}: {most}, and has {used}"
        return None


class NoSchedulablePodIdles(Checker):
    """At rest the decider itself is asked: a pod that waits must have no place."""

    name = "no schedulable pod idles"

    def settled(self, world: World) -> Iterable[str | Finding]:
        known = the_truth(world)
        now_ns = world.engine.now_ns
        for pod in world.list("pods"):
            if lookup(pod, "spec", "nodeName") or is_deleting(pod) or is_terminal(pod):
                continue
            view = known.view(pod)
            placement = known.decider.place(view, known.context(view, now_ns=now_ns))
            if placement.node is not None:
                name = "/".join(key_of(pod))
                yield Finding(f"{name} waits, though {placement.node} has room", (f"pods/{name}",))


def the_truth(world: World) -> Known:
    """The cluster as the store has it, known as a scheduler would."""
    known = Known()
    for kind in sorted(KINDS, key=lambda one: one.name == "Pod"):
        for obj in world.list(kind.resource.name):
            if kind.name == "Pod":
                known.put_pod(obj)
            else:
                known.put(kind.name, None, obj)
    return known


def scheduling_checkers() -> list[Checker]:
    return [LedgerIsTheSum(), NodesWithinTheirLimits(), TenantsWithinTheirQuota(), NoSchedulablePodIdles()]
