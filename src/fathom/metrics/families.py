"""Families of samples, as Prometheus names them: one name, one type, one help text, many label sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Literal

from fathom.metrics.numbers import Durations, LabeledCounts

Kind = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]

# A sample: what follows the family's name ('' or `_bucket`, `_sum`, `_count`), its labels, its value.
Sample = tuple[str, Labels, float]

NO_LABELS: Labels = {}


class Family:
    """Made at each scrape, from the current numbers."""

    __slots__ = ("help", "kind", "name", "samples")

    def __init__(self, name: str, kind: Kind, help: str) -> None:  # noqa: A002  # Prometheus' own word.
        if kind == "counter" and not name.endswith("_total"):
            raise ValueError(f"the name of a counter must end with _total: {name}")
        self.name = name
        self.kind = kind
        self.help = help
        self.samples: list[Sample] = []

    def add(self, value: float, labels: Labels = NO_LABELS) -> Family:
        self.samples.append(("", labels, value))
        return self

    def add_durations(self, durations: Durations, labels: Labels = NO_LABELS) -> Family:
        """Add a histogram's series: each bucket counts all durations up to its bound."""
        bounds = (*map(bound_text, durations.bounds_s), "+Inf")
        for bound, count in zip(bounds, accumulate(durations.counts), strict=True):
            self.samples.append(("_bucket", {**labels, "le": bound}, count))
        self.samples.append(("_sum", labels, durations.sum_s))
        self.samples.append(("_count", labels, sum(durations.counts)))
        return self


def counter(name: str, help: str, value: float, labels: Labels = NO_LABELS) -> Family:  # noqa: A002
    return Family(name, "counter", help).add(value, labels)


def gauge(name: str, help: str, value: float, labels: Labels = NO_LABELS) -> Family:  # noqa: A002
    return Family(name, "gauge", help).add(value, labels)


def counters(name: str, help: str, counts: LabeledCounts, labels: Labels = NO_LABELS) -> Family:  # noqa: A002
    """One series for each set of label values that was counted; `labels` are the same for all of them."""
    family = Family(name, "counter", help)
    for values, count in counts.items():
        family.add(count, {**labels, **dict(zip(counts.names, values, strict=True))})
    return family


def merged(families: Iterable[Family]) -> list[Family]:
    """Merge families of one name: the text format wants all samples of a name together. Raises ValueError if
    two parts use one name with two types: one of them has the wrong name."""
    by_name: dict[str, Family] = {}
    for family in families:
        family_so_far = by_name.get(family.name)
        if family_so_far is None:
            family_so_far = by_name[family.name] = Family(family.name, family.kind, family.help)
        if family_so_far.kind != family.kind:
            raise ValueError(f"{family.name} is a {family_so_far.kind} and a {family.kind}")
        family_so_far.samples += family.samples
    return list(by_name.values())


def bound_text(bound_s: float) -> str:
    return repr(float(bound_s))
