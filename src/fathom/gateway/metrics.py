"""Metrics of the gateway: sums over all Services, since there may be any number of them."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.gateway.proxy import Proxy
from fathom.metrics.families import Family, counter, gauge
from fathom.metrics.registry import Part


def measure_proxy(metrics: Part, proxy: Proxy) -> None:
    metrics.register("proxy", lambda: proxy_families(proxy))


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
