"""Counts of pods per node by selector, kept up to date.

Pods with the same namespace and labels are one group: a selector looks at a group once, not at each pod. A
`Counter` is the number of pods per node that some selector matches; a `TermCount` the number of pods per node
that *have* some (anti-)affinity term themselves. A pod that comes or goes changes, by one, the few of them
that its group and its shape belong to.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from fathom.model.selectors import LabelSelector
from fathom.schedule.decide.node_columns import Ids, Ints, grown
from fathom.schedule.decide.shape import AffinityTerm, Pairs

Namespaces = Mapping[str, Mapping[str, str]]  # Name -> labels.

# Kinds of existing pods' terms, by what they mean for a new pod.
ANTI, TOGETHER, LIKED = "anti", "together", "liked"


class WantedCount(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that match all the terms' selectors and namespaces. (Topology keys do not matter here.)"""

    terms: tuple[AffinityTerm, ...]
    alive: bool = False  # Pods that are being deleted do not count.


class PodGroup:
    """Pods of one namespace and one set of labels, all being deleted or none."""

    __slots__ = ("counters", "deleting", "labels", "namespace", "rows")

    def __init__(self, namespace: str, labels: Pairs, *, deleting: bool) -> None:
        self.namespace = namespace
        self.labels = dict(labels)
        self.deleting = deleting
        self.rows: dict[int, int] = {}  # Row -> pods there; never a zero.
        self.counters: list[Counter] = []  # The counters that count this group.

    def add(self, row: int, sign: int) -> None:
        pods = self.rows.get(row, 0) + sign
        if pods:
            self.rows[row] = pods
        else:
            del self.rows[row]
        for counter in self.counters:
            counter.counts[row] += sign


class Counter:
    __slots__ = ("counts", "wanted")

    def __init__(self, wanted: WantedCount, capacity: int) -> None:
        self.wanted = wanted
        self.counts: Ids = np.zeros(capacity, dtype=np.int32)

    def take(self, group: PodGroup, namespaces: Namespaces) -> None:
        """Count the group from now on, if the terms match it."""
        if (group.deleting and self.wanted.alive) or not matches_all(self.wanted.terms, group, namespaces):
            return
        group.counters.append(self)
        for row, pods in group.rows.items():
            self.counts[row] += pods

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, capacity)


class TermCount:
    """Pods that have a term themselves. Sparse: there may be as many terms as workloads."""

    __slots__ = ("role", "rows", "term", "weight")

    def __init__(self, role: str, weight: int, term: AffinityTerm) -> None:
        self.role, self.weight, self.term = role, weight, term
        self.rows: dict[int, int] = {}  # Row -> pods there; never a zero.

    def add(self, row: int, sign: int) -> None:
        pods = self.rows.get(row, 0) + sign
        if pods:
            self.rows[row] = pods
        else:
            del self.rows[row]

    def per_domain(self, domains: Ids, size: int) -> Ints:
        """How many such pods each of `size` domains has."""
        rows = np.fromiter(self.rows.keys(), dtype=np.int64, count=len(self.rows))
        pods = np.fromiter(self.rows.values(), dtype=np.int64, count=len(self.rows))
        counts = np.zeros(size, dtype=np.int64)
        np.add.at(counts, domains[rows], pods)
        return counts


def matches_all(terms: tuple[AffinityTerm, ...], group: PodGroup, namespaces: Namespaces) -> bool:
    return all(matches(term, group.namespace, group.labels, namespaces) for term in terms)


def matches(term: AffinityTerm, namespace: str, labels: Mapping[str, str], namespaces: Namespaces) -> bool:
    if not term.selector.matches(labels):
        return False
    if namespace in term.namespaces:
        return True
    selector = term.namespace_selector
    return selector is not None and selector.matches(namespaces.get(namespace) or {})


def anywhere_in(namespace: str, selector: LabelSelector) -> AffinityTerm:
    """A term for a selector within one namespace, as topology spread has it."""
    return AffinityTerm(topology_key="", selector=selector, namespaces=(namespace,))
