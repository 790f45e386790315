"""What the server counts, under the names that dashboards for kube-apiserver already use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from fathom.api.request import Target

# Up to a minute, fine where most requests are.
DURATION_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BOUNDS = (*map(floatToGoString, DURATION_BUCKETS_S), "+Inf")

# All verbs of all kinds with all codes they commonly get are fewer; made-up paths could be any number.
SERIES_MAX = 5000
SERIES_CHARS_MAX = 256  # A name is at most 63 characters, a group 253.
OTHER = Target(verb="other", path="")

LABELS = ("verb", "group", "version", "resource", "subresource")


class _Durations:
    """How many requests took how long."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)  # In each bucket alone.
        self.sum_s = 0.0


class _Count:
    """Answers with one code."""

    __slots__ = ("answers", "durations")

    def __init__(self, durations: _Durations) -> None:
        self.answers = 0
        self.durations = durations  # Shared by all codes.


class Metrics:
    """Plain numbers, made into Prometheus' families when somebody looks: its own counters each take a lock,
    and every request would take three."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._known: dict[tuple[str, str, str, str, str, int], _Count] = {}
        self._durations: dict[tuple[str, ...], _Durations] = {}
        self.registry.register(self)

    def observe(self, target: Target, code: int, seconds: float) -> None:
        key = (target.verb, target.group, target.version, target.plural, target.subresource, code)
        count = self._known.get(key)
        if count is None:
            if len(self._known) >= SERIES_MAX or sum(map(len, key[:5])) > SERIES_CHARS_MAX:
                # Somebody makes up resources: what they ask is counted, under no name.
                target, key = OTHER, ("other", "", "", "", "", code)
            durations = self._durations.setdefault(key[:5], _Durations())
            count = self._known.setdefault(key, _Count(durations))
        count.answers += 1
        if target.verb != "watch":
            count.durations.counts[bisect_left(DURATION_BUCKETS_S, seconds)] += 1
            count.durations.sum_s += seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "apiserver_request", "Requests by what they asked and got.", labels=(*LABELS, "code")
        )
        for (*labels, code), count in self._known.items():
            requests.add_metric([*map(str, labels), str(code)], count.answers)
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "Time to answer, watches aside.", labels=LABELS
        )
        for place, taken in self._durations.items():
            buckets = list(zip(_BOUNDS, accumulate(taken.counts), strict=True))
            durations.add_metric(place, buckets, taken.sum_s)
        yield requests
        yield durations

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A number that is read when somebody looks."""
        self.registry.register(_Read(name, text, read))

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


class NoMetrics(Metrics):
    """For worlds in which nobody looks; prometheus' own series are stamped with the real time."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def observe(self, target: Target, code: int, seconds: float) -> None: ...

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None: ...


class _Read:
    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._name, self._text, self._read = name, text, read

    def collect(self) -> list[Metric]:
        family = GaugeMetricFamily(self._name, self._text)
        family.add_metric([], self._read())
        return [family]
