"""Counts each Service's connections by result, with their response times, and keeps the last hour of them.

The gateway carries TCP and does not read it: an HTTP error is a connection that was carried. Nothing here has
a socket or a clock; nothing is decided from these numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from fathom.gateway.routes import RouteListener, Table
from fathom.metrics.numbers import OTHER, Durations
from fathom.model.service_levels import (
    LONG_WINDOW,
    WINDOWS_S,
    Objective,
    ServiceLevel,
    WindowLevel,
)

# carried: both sides ended it, or the client broke it off. reset: the pod broke it off.
# no_endpoint: no endpoint accepted it. gateway_full: the gateway had no file descriptors or memory left.
Result = Literal["carried", "reset", "no_endpoint", "gateway_full"]
RESULTS: tuple[Result, ...] = ("carried", "reset", "no_endpoint", "gateway_full")
SERVICES_MAX = 200  # With some 20 series each; those beyond share one set of series, named `other`.
SLOT_S = 15.0  # Connections are kept in slots of so many seconds: a window is exact to one slot.

# (slot number, connections by result in the order of RESULTS)
Slot = tuple[int, list[int]]


class ServiceCounts:
    """One Service."""

    __slots__ = ("_slots", "response", "totals")

    def __init__(self) -> None:
        self.totals = dict.fromkeys(RESULTS, 0)
        self.response = Durations()
        self._slots: deque[Slot] = deque()  # Of the long window, those with connections; oldest first.

    def count(self, result: Result, now_s: float) -> None:
        self.totals[result] += 1
        number = int(now_s // SLOT_S)
        if not self._slots or self._slots[-1][0] != number:
            self._slots.append((number, [0] * len(RESULTS)))
            self._forget(now_s)
        self._slots[-1][1][RESULTS.index(result)] += 1

    def _forget(self, now_s: float) -> None:
        oldest = _first_slot(WINDOWS_S[LONG_WINDOW], now_s)
        while self._slots and self._slots[0][0] < oldest:
            self._slots.popleft()

    def window(self, seconds: float, now_s: float) -> dict[Result, int]:
        oldest = _first_slot(seconds, now_s)
        slots = [counts for number, counts in self._slots if number >= oldest]
        return {result: sum(counts[at] for counts in slots) for at, result in enumerate(RESULTS)}


def _first_slot(seconds: float, now_s: float) -> int:
    return int((now_s - seconds) // SLOT_S) + 1


class MeasuredService(msgspec.Struct, frozen=True):
    uid: str
    objective: Objective


class ServiceNumbers:
    """All Services of the table. Counts of one that left the table are dropped."""

    def __init__(self, now_s: float, *, services_max: int = SERVICES_MAX) -> None:
        self._since_s = now_s
        self._services_max = services_max
        self._services: dict[str, MeasuredService] = {}
        self._counts: dict[str, ServiceCounts] = {}  # Made at a Service's first connection.
        self._others = ServiceCounts()  # Of Services beyond the bound.

    def change(self, table: Table) -> None:
        self._services = {listener.service: _measured(listener) for listener in table}
        self._counts = {name: counts for name, counts in self._counts.items() if name in self._services}

    def count(self, service: str, result: Result, now_s: float) -> None:
        self._counts_of(service).count(result, now_s)

    def responded(self, service: str, seconds: float) -> None:
        self._counts_of(service).response.observe(seconds)

    def _counts_of(self, service: str) -> ServiceCounts:
        counts = self._counts.get(service)
        if counts is None:
            # A connection may end after its Service has left the table.
            if service not in self._services or len(self._counts) >= self._services_max:
                return self._others
            counts = self._counts[service] = ServiceCounts()
        return counts

    def series(self) -> Iterable[tuple[str, ServiceCounts]]:
        """Service -> its counts; `other/other` for those beyond the bound."""
        yield from self._counts.items()
        if any(self._others.totals.values()):
            yield f"{OTHER}/{OTHER}", self._others

    def levels(self, now_s: float) -> Iterable[ServiceLevel]:
        """Of each Service that has its own counts."""
        for service in self._counts:
            yield self._level(service, now_s)

    def levels_by_uid(self, uids: Iterable[str], now_s: float) -> Mapping[str, ServiceLevel]:
        """Of the Services with these UIDs; without connections where there were none. A Service beyond the
        bound is left out: it was not measured."""
        by_uid = {service.uid: name for name, service in self._services.items() if service.uid}
        names = {uid: by_uid[uid] for uid in uids if uid in by_uid}
        full = len(self._counts) >= self._services_max
        return {
            uid: self._level(name, now_s) for uid, name in names.items() if name in self._counts or not full
        }

    def _level(self, service: str, now_s: float) -> ServiceLevel:
        counts = self._counts.get(service) or ServiceCounts()
        by_window = {name: counts.window(seconds, now_s) for name, seconds in WINDOWS_S.items()}
        return ServiceLevel(
            service=service,
            objective=self._services[service].objective,
            windows={name: _window_level(results) for name, results in by_window.items()},
            results={
                result: count
                for result, count in by_window[LONG_WINDOW].items()
                if count and result != "carried"
            },
            measured_s=round(now_s - self._since_s, 1),
        )


def _measured(listener: RouteListener) -> MeasuredService:
    return MeasuredService(listener.service_uid, listener.objective)


def _window_level(results: Mapping[Result, int]) -> WindowLevel:
    total = sum(results.values())
    return WindowLevel(total, total - results["carried"])
