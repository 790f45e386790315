"""Sums over the pods on the nodes: requested amounts, ports, matching pods, tenants' use of zones.

The table reports every pod that comes and goes; no pod is looked at twice. What is derived from a shape (its
vector, its group, its terms) is computed once per shape, in a `Profile`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

from fathom.schedule.decide.node_columns import Ints, grown
from fathom.schedule.decide.pod_groups import (
    ANTI,
    LIKED,
    TOGETHER,
    Counter,
    Namespaces,
    PodGroup,
    TermCount,
    WantedCount,
    matches,
)
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.shape import AffinityTerm, Needs, Pairs, PodShape

K = TypeVar("K", bound=Hashable)

# Cells of all counters together: 256 MB. Beyond that, counters are dropped and made again when needed.
COUNTER_CELLS_MAX = 64 << 20
# Profiles that are kept. One costs some microseconds to make again.
PROFILES_MAX = 50_000

Charged = tuple[str, str, str]  # Tenant, zone, capacity class.


class Profile:
    __slots__ = ("amounts", "group", "shape", "terms", "vector")

    def __init__(self, shape: PodShape, vector: Ints, amounts: tuple[tuple[int, int], ...]) -> None:
        self.shape = shape
        self.vector = vector  # (resources,)
        self.amounts = amounts  # (column, amount) of what is not zero.
        self.group: PodGroup | None = None
        self.terms: tuple[TermCount, ...] = ()


class NodeTally:
    def __init__(self, resources: dict[str, int], capacity: int) -> None:
        self._resources = resources  # The table's.
        self.requested: Ints = np.zeros((capacity, 4), dtype=np.int64)  # (capacity, resources)
        self.scored: Ints = np.zeros(
            (capacity, 2), dtype=np.int64
        )  # CPU and memory, with a small amount for containers without requests.
        self.used: dict[
            str, dict[tuple[str, str], dict[str, int]]
        ] = {}  # Tenant -> (zone, class) -> amounts.
        self.drawn: dict[tuple[int, str], dict[str, int]] = {}  # (row, class) -> what its pods use.
        # (protocol, port) -> row -> address -> pods. Never an empty one.
        self.ports: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self.groups: dict[tuple[str, Pairs, bool], PodGroup] = {}
        self.terms: dict[tuple[str, int, AffinityTerm], TermCount] = {}
        self._counters: dict[WantedCount, Counter] = {}
        self._profiles: dict[tuple[PodShape, bool], Profile] = {}
        self._namespaces: Namespaces = {}

    def add(self, view: PodView, row: int, charged: Charged, capacity_class: str, sign: int) -> None:
        """Add (sign=1) or remove (-1) a pod. Without a row it counts for its tenant only."""
        profile = self.profile(view.shape, deleting=view.deleting)
        self.charge(charged, view.shape.requests, sign)
        if row < 0:
            return
        if sign > 0:
            self.requested[row] += profile.vector
        else:
            self.requested[row] -= profile.vector
        scored = self.scored[row]
        scored[0] += sign * view.shape.scored_cpu_milli
        scored[1] += sign * view.shape.scored_memory
        if profile.group is not None:
            profile.group.add(row, sign)
        for term in profile.terms:
            term.add(row, sign)
        if view.shape.ports:
            self._add_ports(view.shape, row, sign)
        if capacity_class:
            _add(self.drawn, (row, capacity_class), view.shape.requests, sign)

    def charge(self, charged: Charged, needs: Needs, sign: int) -> None:
        tenant, zone, capacity_class = charged
        places = self.used.setdefault(tenant, {})
        _add(places, (zone, capacity_class), needs, sign)
        if not places:
            del self.used[tenant]

    def profile(self, shape: PodShape, *, deleting: bool = False) -> Profile:
        profile = self._profiles.get((shape, deleting))
        if profile is None or profile.vector.shape[0] != self.requested.shape[1]:
            if len(self._profiles) >= PROFILES_MAX:
                self._forget_idle()
            profile = self._profiles[shape, deleting] = self._new_profile(shape, deleting)
        return profile

    def counter(self, wanted: WantedCount) -> Counter:
        """How many wanted pods each node has, kept up to date until `forget_counters`."""
        counter = self._counters.get(wanted)
        if counter is None:
            counter = self._counters[wanted] = Counter(wanted, self.requested.shape[0])
            for group in self.groups.values():
                counter.take(group, self._namespaces)
        return counter

    @property
    def counted(self) -> list[WantedCount]:
        """What counters are kept for."""
        return list(self._counters)

    @property
    def crowded(self) -> bool:
        return len(self._counters) * len(self.requested) > COUNTER_CELLS_MAX

    def forget_counters(self) -> None:
        self._counters.clear()
        for group in self.groups.values():
            group.counters.clear()

    def terms_about(self, shape: PodShape) -> list[TermCount]:
        """Placed pods' terms that select a new pod of this shape."""
        labels = dict(shape.labels)
        return [
            term_count
            for term_count in self.terms.values()
            if term_count.rows and matches(term_count.term, shape.namespace, labels, self._namespaces)
        ]

    def recount(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        """Namespaces have other labels now. Counters are made again when they are needed."""
        self._namespaces = dict(namespaces)
        self.forget_counters()

    @property
    def namespaces(self) -> Namespaces:
        return self._namespaces

    def grow(self, capacity: int) -> None:
        self.requested = grown(self.requested, capacity)
        self.scored = grown(self.scored, capacity)
        for counter in self._counters.values():
            counter.grow(capacity)

    def widen(self) -> None:
        """Double the number of resource columns."""
        wider = np.zeros((self.requested.shape[0], 2 * self.requested.shape[1]), dtype=np.int64)
        wider[:, : self.requested.shape[1]] = self.requested
        self.requested = wider

    def vector(self, needs: Needs) -> Ints:
        vector = np.zeros(self.requested.shape[1], dtype=np.int64)
        for name, amount in needs:
            vector[self._resources[name]] = amount
        return vector

    def _new_profile(self, shape: PodShape, deleting: bool) -> Profile:
        amounts = tuple((self._resources[name], amount) for name, amount in shape.requests)
        profile = Profile(shape, self.vector(shape.requests), amounts)
        profile.group = self._group(shape, deleting)
        profile.terms = tuple(
            self._term(role, weight, term)
            for role, weight, term in (
                *((ANTI, 0, term) for term in shape.anti_affinity),
                *((TOGETHER, 1, term) for term in shape.affinity),
                *((LIKED, preferred.weight, preferred.term) for preferred in shape.preferred_pods),
            )
        )
        return profile

    def _forget_idle(self) -> None:
        """Drop shapes, groups and terms that no pod has any more. Every pod may have labels of its own, so
        what is kept must stay bounded."""
        self._profiles.clear()
        self.groups = {key: group for key, group in self.groups.items() if group.rows}
        self.terms = {key: term_count for key, term_count in self.terms.items() if term_count.rows}

    def _group(self, shape: PodShape, deleting: bool) -> PodGroup:
        key = (shape.namespace, shape.labels, deleting)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = PodGroup(shape.namespace, shape.labels, deleting=deleting)
            for counter in self._counters.values():
                counter.take(group, self._namespaces)
        return group

    def _term(self, role: str, weight: int, term: AffinityTerm) -> TermCount:
        key = (role, weight, term)
        term_count = self.terms.get(key)
        if term_count is None:
            term_count = self.terms[key] = TermCount(role, weight, term)
        return term_count

    def _add_ports(self, shape: PodShape, row: int, sign: int) -> None:
        for port in shape.ports:
            on_rows = self.ports.setdefault((port.protocol, port.port), {})
            addresses = on_rows.setdefault(row, {})
            addresses[port.address] = addresses.get(port.address, 0) + sign
            if not addresses[port.address]:
                del addresses[port.address]
            if not addresses:
                del on_rows[row]
            if not on_rows:
                del self.ports[port.protocol, port.port]


def _add(sums: dict[K, dict[str, int]], key: K, needs: Needs, sign: int) -> None:
    """Add to the sums; zero entries are removed."""
    amounts = sums.get(key)
    if amounts is None:
        amounts = sums[key] = {}
    for name, amount in needs:
        total = amounts.get(name, 0) + sign * amount
        if total:
            amounts[name] = total
        else:
            del amounts[name]
    if not amounts:
        del sums[key]
