"""Verdicts: why each node does or does not take a pod, in compact form.

A pass writes one code per node, an index into its reasons: 0 means that the node fits. Codes come in layers:
each node's own, then for each topology rule one code per *domain* (zone, host, …) and a column with each
node's domain. The first layer that rejects is the node's reason. Placements change few of these, so a batch
keeps the first codes whole and then the changes, and every decision points at its place in that log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]
Domains = NDArray[np.int32]

FITS = 0
CODES_MAX = 255  # A code is one byte. A pass that runs out of codes uses its rule's general reason.


class Reason(msgspec.Struct, frozen=True):
    """Why a node was rejected."""

    rule: str  # 'NodeResourcesFit'
    texts: tuple[str, ...]  # In kube-scheduler's words; several when several resources are short.
    resolvable: bool = True  # Removing pods from the node could help.
    pending: str = ""  # 'capacity/ports': if it is more precise than the filter's boundary.
    about: str = ""  # The name of the override, policy, class or limit that rejects.
    names: tuple[str, ...] = ()  # What the texts name: resources that are short, a taint's key and value, …


class VerdictChange(msgspec.Struct, frozen=True):
    """A code changed from this decision on. `at` is a row in layer 0, the nodes' own, else a domain."""

    decision: int
    layer: int
    at: int
    code: int


class VerdictLog:
    """The verdicts of one pass over a shape: the pass appends, decisions read."""

    def __init__(self, own: Codes, layers: Sequence[tuple[Domains, Codes]], reasons: list[Reason]) -> None:
        self.own = own
        self.layers = tuple(layers)
        self.reasons = reasons  # By code; grows, never changes.
        self.changes: list[VerdictChange] = []
        self.decisions = 1

    def codes(self, decision: int) -> Codes:
        """Every row's code as of a decision."""
        own, layers = self.own.copy(), [codes.copy() for _, codes in self.layers]
        for change in self.changes:
            if change.decision > decision:
                break
            (own if change.layer == 0 else layers[change.layer - 1])[change.at] = change.code
        return joined(
            own, [(domains, codes) for (domains, _), codes in zip(self.layers, layers, strict=True)]
        )


def joined(own: Codes, layers: Sequence[tuple[Domains, Codes]]) -> Codes:
    """One code per row: the first that rejects. The domain of a row that has none is 0."""
    codes = own
    for domains, by_domain in layers:
        codes = np.where(codes == FITS, by_domain[domains], codes)
    return codes


class NodeVerdicts(msgspec.Struct, frozen=True):
    """One decision's place in a log."""

    log: Any  # VerdictLog
    decision: int = 0

    def codes(self) -> Codes:
        codes: Codes = self.log.codes(self.decision)
        return codes

    def reasons(self) -> list[Reason]:
        reasons: list[Reason] = self.log.reasons
        return reasons
