"""How well a Service answers: the share of its connections that failed, against its objective.

The burn rate is the share that failed, divided by the share that the objective allows to fail. At 1 the error
budget lasts exactly as long as the objective's period; at 14.4 a budget of 30 days is gone after two days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

OBJECTIVE_ANNOTATION = "fathom.dev/slo"  # On a Service: the percentage of connections that must succeed.
OBJECTIVE_PERCENT = 99.9
SHORT_WINDOW, LONG_WINDOW = "5m", "1h"
WINDOWS_S: Mapping[str, float] = {SHORT_WINDOW: 300.0, LONG_WINDOW: 3600.0}
# 2 % of a 30 days' budget within one hour. Both windows must exceed it: the long one proves that it matters,
# the short one that it still goes on.
FAST_BURN = 14.4
CONNECTIONS_MIN = 20  # Of the long window: one failed connection of three proves nothing.


class Objective(msgspec.Struct, frozen=True, order=True):
    percent: float = OBJECTIVE_PERCENT
    source: str = "the default"


class WindowLevel(msgspec.Struct, frozen=True, rename="camel"):
    """The connections that ended within a window."""

    connections: int = 0
    failed: int = 0

    @property
    def error_rate(self) -> float | None:
        """None without connections: that is no data, not zero."""
        return self.failed / self.connections if self.connections else None


class ServiceLevel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One Service, as a gateway has measured it."""

    service: str  # namespace/name
    objective: Objective = Objective()
    windows: Mapping[str, WindowLevel] = {}  # By name: '5m', '1h'.
    results: Mapping[str, int] = {}  # Failed connections of the long window by result: 'no_endpoint'.
    measured_s: float = 0.0  # How long this gateway has measured; shorter than a window after a restart.

    def burn_rate(self, window: str) -> float | None:
        rate = self.windows.get(window, WindowLevel()).error_rate
        return None if rate is None else rate / (1 - self.objective.percent / 100)

    @property
    def burns_fast(self) -> bool:
        rates = [self.burn_rate(window) for window in (SHORT_WINDOW, LONG_WINDOW)]
        enough = self.windows.get(LONG_WINDOW, WindowLevel()).connections >= CONNECTIONS_MIN
        return enough and all(rate is not None and rate >= FAST_BURN for rate in rates)


def objective_of(annotations: Mapping[str, str]) -> Objective:
    """From the Service's annotation, such as '99.5' or '99.5 %'; else the default."""
    text = annotations.get(OBJECTIVE_ANNOTATION)
    if text is None:
        return Objective()
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 < percent < 100:  # 100 allows no failure at all: every burn rate would be infinite.
        shown = text[:40]
        return Objective(
            source=f"the default: annotation {OBJECTIVE_ANNOTATION} is {shown!r}, not a percentage"
        )
    return Objective(percent, f"annotation {OBJECTIVE_ANNOTATION}")


def combined(levels: Iterable[ServiceLevel]) -> ServiceLevel | None:
    """One Service as several gateways have measured it."""
    measured = list(levels)
    if not measured:
        return None
    windows = {
        name: WindowLevel(
            sum(level.windows.get(name, WindowLevel()).connections for level in measured),
            sum(level.windows.get(name, WindowLevel()).failed for level in measured),
        )
        for name in WINDOWS_S
    }
    results: dict[str, int] = {}
    for level in measured:
        for result, count in level.results.items():
            results[result] = results.get(result, 0) + count
    return msgspec.structs.replace(
        measured[0],
        windows=windows,
        results=results,
        measured_s=min(level.measured_s for level in measured),
    )
