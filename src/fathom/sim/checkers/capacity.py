"""The ledgers of nodes and tenants equal the sum of pods and reservations; no pod is bound beyond a limit.

For authors of scenarios: these checkers are part of `everywhere()`. They add up pods and reservations
themselves, one change at a time, and check a node or a tenant when a commit has touched it: a world of a
thousand pods costs a few additions a commit. A node's own mirror pods may exceed its capacity, as kubelets'
do: no other pod may, however it gets its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.api.ledger.accounts import INTENT_BOOKS, NODE_BOOKS, TENANT_BOOKS
from fathom.api.ledger.holdings import counts_of
from fathom.kinds.reservation import RESERVATIONS
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.mirror import is_mirror
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.podresources import REQUESTS, pod_amounts
from fathom.model.tenancy import ACCOUNT
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

LEDGERS = frozenset({NODE_BOOKS, TENANT_BOOKS, INTENT_BOOKS})

Sums = dict[str, dict[str, int]]  # Account -> resource -> amount.


def held(resource: str, obj: Obj | None) -> tuple[str, str, dict[str, int]] | None:
    """(node, account, amounts) that a pod or reservation holds now, computed independently of the server."""
    node = lookup(obj, "spec", "nodeName")
    if obj is None or not node:
        return None
    phase = lookup(obj, "status", "phase") or ""
    notes = metadata(obj).get("annotations") or {}
    account = str(notes.get(ACCOUNT) or f"{metadata(obj).get('namespace')}//")
    if resource == "pods":
        if phase in TERMINAL_PHASES:
            return None
        requests = {
            name: amount.milli if name == "cpu" else amount.value
            for name, amount in pod_amounts(obj, REQUESTS).items()
        }
        return str(node), account, {**requests, "pods": 1}
    if phase not in {"", "Active"}:
        return None
    return str(node), account, {"pods": 1, **counts_of(lookup(obj, "spec", "resources"))}


class _Sums:
    """What is held on every node and by every tenant, summed up by this checker."""

    def __init__(self) -> None:
        self.nodes: Sums = {}
        self.tenants: dict[str, Sums] = {}  # Tenant -> zone/class -> ...

    def follow(self, change: Seen) -> tuple[list[str], list[str]]:
        """Add the change; return the nodes and tenants that it affects."""
        nodes: list[str] = []
        tenants: list[str] = []
        if change.resource not in {"pods", RESERVATIONS} or _holds_the_same(change):
            return nodes, tenants
        for obj, sign in ((change.old, -1), (change.new, 1)):
            holding = held(change.resource, obj)
            if holding is None:
                continue
            node, account, amounts = holding
            tenant, zone, capacity_class = account.split("/")[:3]
            _add(self.nodes.setdefault(node, {}), amounts, sign)
            places = self.tenants.setdefault(tenant, {})
            _add(places.setdefault(f"{zone}/{capacity_class}", {}), amounts, sign)
            nodes.append(node)
            tenants.append(tenant)
        return nodes, tenants


def _holds_the_same(change: Seen) -> bool:
    """A quick test: nearly all changes of a pod are status updates."""
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    phases = [lookup(obj, "status", "phase") or "" for obj in (old, new)]
    ended = [phase in TERMINAL_PHASES for phase in phases]
    moved = ended[0] != ended[1] if change.resource == "pods" else phases[0] != phases[1]
    accounts = [lookup(obj, "metadata", "annotations", ACCOUNT) for obj in (old, new)]
    spec, before = new.get("spec"), old.get("spec")
    return not moved and accounts[0] == accounts[1] and (spec is before or spec == before)


def _add(sums: dict[str, int], amounts: dict[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0) + sign * amount


class LedgerIsTheSum(Checker):
    """Checked after every whole commit: when the next one begins, or at rest."""

    name = "a node's or tenant's ledger equals the sum of its pods"

    def __init__(self) -> None:
        self._sums = _Sums()
        self._books: dict[tuple[str, str], Obj] = {}
        self._touched: dict[tuple[str, str], None] = {}
        self._revision = 0

    def commit(self, change: Seen) -> Found:
        problem = self._check() if change.revision != self._revision else None
        self._revision = change.revision
        if change.resource in {NODE_BOOKS, TENANT_BOOKS}:
            place = (change.resource, change.key.name)
            self._books[place] = change.new or {}
            self._touched[place] = None
        nodes, tenants = self._sums.follow(change)
        self._touched |= {(NODE_BOOKS, name): None for name in nodes}
        self._touched |= {(TENANT_BOOKS, name): None for name in tenants}
        return problem

    def settled(self, world: World) -> Iterable[str | Finding]:
        problem = self._check()
        return () if problem is None else (problem,)

    def _check(self) -> Finding | None:
        touched, self._touched = self._touched, {}
        for resource, name in touched:
            book = self._books.get((resource, name), {})
            if resource == NODE_BOOKS:
                pairs = [(book.get("requested") or {}, self._sums.nodes.get(name, {}))]
            else:
                used, sums = book.get("used") or {}, self._sums.tenants.get(name, {})
                pairs = [(used.get(place, {}), sums.get(place, {})) for place in sorted({*used, *sums})]
            for written, counted in pairs:
                wrong = _difference(written, counted)
                if wrong:
                    return Finding(f"{resource} of {name}: {wrong}", (f"{resource}/{name}",))
        return None


def _difference(written: dict[str, int], counted: dict[str, int]) -> str:
    for name in sorted({*written, *counted}):
        if written.get(name, 0) != counted.get(name, 0):
            return f"{name}: the ledger has {written.get(name, 0)}, the sum is {counted.get(name, 0)}"
    return ""


class NobodyIsBoundBeyondALimit(Checker):
    """When a pod has got a node, by a binding or at its creation: node and tenant are within their limits."""

    name = "no node or quota over its limit"

    def __init__(self) -> None:
        self._sums = _Sums()
        self._nodes: dict[str, Obj] = {}
        self._quotas: dict[str, Obj] = {}
        self._bound: list[tuple[str, str, str]] = []  # (pod, node, tenant) of the commit at `_revision`.
        self._revision = 0

    def commit(self, change: Seen) -> Found:
        problem = self._check() if change.revision != self._revision else None
        self._revision = change.revision
        if change.resource == "nodes":
            self._nodes[change.key.name] = change.new or {}
        elif change.resource == TENANT_QUOTAS:
            self._quotas[change.key.name] = change.new or {}
        nodes, tenants = self._sums.follow(change)
        if change.resource == "pods" and nodes and _has_arrived(change):
            self._bound.append((change.path, nodes[-1], tenants[-1]))
        return problem

    def settled(self, world: World) -> Iterable[str | Finding]:
        problem = self._check()
        return () if problem is None else (problem,)

    def _check(self) -> Finding | None:
        bound, self._bound = self._bound, []
        for path, node, tenant in bound:
            over = self._over_allocatable(node) or self._over_quota(tenant)
            if over:
                return Finding(over, (path, f"nodes/{node}"))
        return None

    def _over_allocatable(self, node: str) -> str:
        listed = lookup(self._nodes.get(node), "status", "allocatable")
        if not listed:
            return ""
        room = counts_of(listed)
        for name, amount in sorted(self._sums.nodes.get(node, {}).items()):
            if amount > room.get(name, amount if name == "pods" else 0):
                return f"{node} has {name} {room.get(name, 0)} allocatable, but {amount} is in use"
        return ""

    def _over_quota(self, tenant: str) -> str:
        for limit in lookup(self._quotas.get(tenant), "spec", "limits") or ():
            for name, most in sorted(counts_of(limit.get("resources")).items()):
                used = sum(
                    amounts.get(name, 0)
                    for place, amounts in sorted(self._sums.tenants.get(tenant, {}).items())
                    if _covers(limit, place)
                )
                if used > most:
                    return f"tenant {tenant} has a limit of {name} {most}, but uses {used}"
        return ""


def _has_arrived(change: Seen) -> bool:
    if is_mirror(change.new or {}):
        return False
    return held("pods", change.old) is None and held("pods", change.new) is not None


def _covers(limit: Obj, place: str) -> bool:
    zone, _, capacity_class = place.partition("/")
    same_zone = limit.get("zone", zone) == zone
    return bool(same_zone and limit.get("capacityClass", capacity_class) == capacity_class)
