"""What the server counts, under the names that dashboards for kube-apiserver already use."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from fathom.api.request import Target

# Up to a minute, fine where most requests are.
DURATION_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# All verbs of all kinds with all codes they commonly get are fewer; made-up paths could be any number.
SERIES_MAX = 5000
OTHER = Target(verb="other", path="")

_Children = tuple[Counter, Histogram]


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("verb", "group", "version", "resource", "subresource")
        self._requests = Counter(
            "apiserver_request_total",
            "Requests by what they asked and got.",
            (*labels, "code"),
            registry=self.registry,
        )
        self._durations = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer, watches aside.",
            labels,
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )
        self._known: dict[tuple[str, str, str, str, str, int], _Children] = {}

    def observe(self, target: Target, code: int, seconds: float) -> None:
        key = (target.verb, target.group, target.version, target.plural, target.subresource, code)
        children = self._known.get(key)
        if children is None:
            if len(self._known) >= SERIES_MAX:
                # Somebody makes up resources: what they ask is counted, under no name.
                target, key = OTHER, ("other", "", "", "", "", code)
            children = self._known[key] = (
                self._requests.labels(*key[:5], str(code)),
                self._durations.labels(*key[:5]),
            )
        children[0].inc()
        if target.verb != "watch":
            children[1].observe(seconds)

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
