"""The API server's metrics, under the names that dashboards for kube-apiserver already use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from fathom.api.request import RequestTarget
from fathom.metrics.families import Family, gauge
from fathom.metrics.numbers import Durations
from fathom.metrics.registry import Registry

# Up to a minute; finest where most requests are.
DURATION_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# All verbs of all kinds with all their common codes are fewer; made-up paths could be any number.
SERIES_MAX = 5000
SERIES_CHARS_MAX = 256  # A name is at most 63 characters, a group 253.
OTHER = RequestTarget(verb="other", path="")

LABELS = ("verb", "group", "version", "resource", "subresource")


class _Count:
    """Number of answers with one code."""

    __slots__ = ("answers", "durations")

    def __init__(self, durations: Durations) -> None:
        self.answers = 0
        self.durations = durations  # Shared by all codes.


class Metrics:
    """Plain numbers while requests are served; they become metric families when scraped."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        self._known: dict[tuple[str, str, str, str, str, int], _Count] = {}
        self._durations: dict[tuple[str, ...], Durations] = {}
        self.registry.register("requests", self.collect)

    def observe(self, target: RequestTarget, code: int, seconds: float) -> None:
        key = (target.verb, target.group, target.version, target.plural, target.subresource, code)
        count = self._known.get(key)
        if count is None:
            if len(self._known) >= SERIES_MAX or sum(map(len, key[:5])) > SERIES_CHARS_MAX:
                # A client makes up resources: its requests are counted without their names.
                target, key = OTHER, ("other", "", "", "", "", code)
            durations = self._durations.setdefault(key[:5], Durations(DURATION_BUCKETS_S))
            count = self._known.setdefault(key, _Count(durations))
        count.answers += 1
        if target.verb != "watch":
            durations = count.durations  # As `Durations.observe`, without the call: it is on every request.
            durations.counts[bisect_left(DURATION_BUCKETS_S, seconds)] += 1
            durations.sum_s += seconds

    def collect(self) -> Iterator[Family]:
        requests = Family(
            "apiserver_request_total", "counter", "Requests by verb, resource and response code."
        )
        for (*labels, code), count in self._known.items():
            named = dict(zip(LABELS, map(str, labels), strict=True))
            requests.add(count.answers, {**named, "code": str(code)})
        durations = Family(
            "apiserver_request_duration_seconds", "histogram", "Time to answer, except for watches."
        )
        for place, series in self._durations.items():
            durations.add_durations(series, dict(zip(LABELS, place, strict=True)))
        yield requests
        yield durations

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A number that is read at each scrape."""
        self.registry.register(name, lambda: (gauge(name, text, read()),))

    def exposition(self) -> bytes:
        return self.registry.exposition()


class NoMetrics(Metrics):
    """For simulations, where nothing is scraped."""

    def __init__(self) -> None:
        self.registry = Registry()

    def observe(self, target: RequestTarget, code: int, seconds: float) -> None: ...

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None: ...
