"""Layers, which topology rules are made of: one code per domain, and a column with each node's domain.

Placing a pod of the pass's own shape changes the counts of one domain, and with them a few codes; the layer
reports which. Everything else about the table is read when a layer is made.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fathom.schedule.decide.node_columns import Bools, Ids, Ints
from fathom.schedule.decide.pod_groups import Counter
from fathom.schedule.decide.verdicts import Codes

Moved = list[tuple[int, int]]  # (domain, code)


class Layer(Protocol):
    domains: Ids  # (rows,)
    codes: Codes  # (domains,); 0 where the rule rejects nothing.

    def placed(self, row: int) -> Moved:
        """A pod of the pass's shape was placed on the row; returns the changed codes."""
        ...


def per_domain(domains: Ids, size: int, counter: Counter, only: Bools | None = None) -> Ints:
    """Pods counted, by domain."""
    counts = counter.counts[: domains.size]
    if only is not None:
        counts = np.where(only, counts, 0)
    some = np.flatnonzero(counts)
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, domains[some], counts[some])
    return totals


def moved(old: Codes, new: Codes) -> Moved:
    return [(at, int(new[at])) for at in np.flatnonzero(old != new).tolist()]
