"""How many nodes each reason rejects, counted while a shape's scan is kept up to date.

A placement moves a row or two from one code to another, and every Placement carries the counts. So reasons
are sorted once for a scan, and not for each placement.
"""

from __future__ import annotations

import numpy as np

from fathom.schedule.decide.rows import Reasons
from fathom.schedule.decide.verdicts import CODES_MAX, Codes, Reason

CODES = CODES_MAX + 1


class RejectionCounts:
    """Lists reasons by rule and text, in an order that does not depend on which reason was met first: a batch
    must give the same answers as its pods in turn."""

    def __init__(self, reasons: Reasons, codes: Codes) -> None:
        self._reasons = reasons
        self._rows: list[int] = np.bincount(codes, minlength=CODES).tolist()  # By code: rows that have it.
        self._sorted_reasons = 0  # How many of the reasons the next two lists cover: a scan may get more.
        self._codes: list[int] = []  # By rule and text of their reasons.
        self._codes_of_text: list[tuple[str, list[int]]] = []
        self._by_reason: tuple[tuple[Reason, int], ...] | None = None  # None: not computed yet.
        self._by_text: dict[str, int] | None = None

    def move(self, old: int, new: int) -> None:
        """One row had the old code and has the new one."""
        self._rows[old] -= 1
        self._rows[new] += 1
        self._by_reason = self._by_text = None

    def move_many(self, old: Codes, new: Codes) -> None:
        changed = np.bincount(new, minlength=CODES) - np.bincount(old, minlength=CODES)
        for code in np.flatnonzero(changed).tolist():
            self._rows[code] += int(changed[code])
        self._by_reason = self._by_text = None

    def by_reason(self) -> tuple[tuple[Reason, int], ...]:
        """Reasons that reject nodes, with how many. Shared between decisions until something changes."""
        if self._by_reason is None:
            self._sort()
            rows, listed = self._rows, self._reasons.listed
            self._by_reason = tuple([(listed[code], rows[code]) for code in self._codes if rows[code]])
        return self._by_reason

    def by_text(self) -> dict[str, int]:
        """The same by text: a node with two texts counts for both."""
        if self._by_text is None:
            self._sort()
            rows = self._rows
            self._by_text = {
                text: nodes
                for text, codes in self._codes_of_text
                if (nodes := rows[codes[0]] if len(codes) == 1 else sum([rows[code] for code in codes]))
            }
        return self._by_text

    def _sort(self) -> None:
        listed = self._reasons.listed
        if len(listed) == self._sorted_reasons:
            return
        self._sorted_reasons = len(listed)
        self._codes = sorted(range(1, len(listed)), key=lambda code: (listed[code].rule, listed[code].texts))
        texts: dict[str, list[int]] = {}
        for code in self._codes:
            for text in listed[code].texts:
                texts.setdefault(text, []).append(code)
        self._codes_of_text = sorted(texts.items())
