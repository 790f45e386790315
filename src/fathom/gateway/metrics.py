"""Metrics of the gateway: sums over all Services, and numbers of each, for a bounded number of Services."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.gateway.proxy import Proxy
from fathom.gateway.service_counts import ServiceNumbers
from fathom.metrics.families import Family, counter, gauge
from fathom.metrics.registry import Part
from fathom.model.service_levels import ServiceLevel
from fathom.seams.loop_clock import loop_now_s


def measure_proxy(metrics: Part, proxy: Proxy) -> None:
    metrics.register("proxy", lambda: proxy_families(proxy))
    metrics.register("services", lambda: service_families(proxy.services, loop_now_s()))
    metrics.describe(
        "services",
        lambda about: {
            uid: msgspec.to_builtins(level)
            for uid, level in proxy.services.levels_by_uid(about, loop_now_s()).items()
        },
    )


def proxy_families(proxy: Proxy) -> Iterable[Family]:
    numbers = proxy.numbers
    connections = Family("fathom_gateway_connections_total", "counter", "Connections by result.")
    connections.add(numbers.carried, {"result": "carried"})
    connections.add(numbers.nobody, {"result": "no_endpoint"})
    yield connections
    yield gauge("fathom_gateway_open_connections", "Connections that are open.", proxy.connections)
    failures_help = "Endpoints that did not accept a connection; another one was tried."
    yield counter("fathom_gateway_connect_failures_total", failures_help, numbers.connect_failures)
    yield gauge("fathom_gateway_listeners", "Addresses and ports of Services listened on.", proxy.listeners)
    failed_help = "Services at whose address the gateway cannot listen."
    yield gauge("fathom_gateway_failed_services", failed_help, numbers.listeners_failed)
    total, unreached = proxy.endpoints()
    yield gauge("fathom_gateway_endpoints", "Endpoints behind the Services.", total)
    yield gauge("fathom_gateway_unreachable_endpoints", "Endpoints that cannot be reached.", unreached)


def service_families(services: ServiceNumbers, now_s: float) -> Iterable[Family]:
    connections = Family(
        "fathom_gateway_service_connections_total", "counter", "Connections that ended, by result."
    )
    response = Family(
        "fathom_gateway_service_response_seconds",
        "histogram",
        "From a client's first bytes to the first bytes of the answer, once for each connection.",
    )
    for service, counts in services.series():
        labels = service_labels(service)
        for result, total in counts.totals.items():
            connections.add(total, {**labels, "result": result})
        response.add_durations(counts.response, labels)
    yield connections
    yield response
    yield from level_families(services.levels(now_s))


def level_families(levels: Iterable[ServiceLevel]) -> Iterable[Family]:
    objective = Family(
        "fathom_gateway_service_slo_objective_ratio", "gauge", "Share of connections that must succeed."
    )
    errors = Family(
        "fathom_gateway_service_error_ratio", "gauge", "Share of the window's connections that failed."
    )
    burn = Family(
        "fathom_gateway_service_slo_burn_rate",
        "gauge",
        "Share of failed connections, divided by the share that the objective allows.",
    )
    for level in levels:
        labels = service_labels(level.service)
        objective.add(level.objective.percent / 100, labels)
        for window, counted in level.windows.items():
            error_rate, burn_rate = counted.error_rate, level.burn_rate(window)
            if error_rate is None or burn_rate is None:
                continue  # No connections: no data, not zero.
            errors.add(error_rate, {**labels, "window": window})
            burn.add(burn_rate, {**labels, "window": window})
    yield objective
    yield errors
    yield burn


def service_labels(service: str) -> dict[str, str]:
    namespace, _, name = service.partition("/")
    return {"namespace": namespace, "service": name}
