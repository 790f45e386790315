"""The API server as a Service: `default/kubernetes`, by which programs inside of pods find it. Pure.

Its address is one of the first of the services' range, as everywhere; the gateway answers there like for any.
Clusters of one machine share the loopback, so each has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from fathom.api.admission.addresses import ADDRESSES, kept_addresses
from fathom.model.objects import Obj
from fathom.model.well_known import SKIP_MIRROR_LABEL

KEY = "/registry/services/default/kubernetes"
PORTS = (443, 6443, 8443)  # The first is Kubernetes'; it may need root, or be taken on every address.
USUAL_PORT = 6443  # Of an API server.
LABELS = {"component": "apiserver", "provider": "kubernetes"}


def own_addresses(port: int, addresses: IPv4Network = ADDRESSES) -> Iterator[str]:
    """Those that a server at this port may have, the likeliest first: the first of all for the usual port.
    Others begin elsewhere, so that two that are made at the same moment do not meet."""
    choices = kept_addresses(addresses) - 2
    first = 0 if port == USUAL_PORT else 1 + port % (choices - 1)
    for step in range(choices):
        yield str(addresses.network_address + 1 + (first + step) % choices)


def own_service(address: str, number: int) -> Obj:
    port = {"name": "https", "port": number, "protocol": "TCP", "targetPort": number}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": LABELS},
        "spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": [port]},
    }


def own_endpoints(address: str, port: int) -> Obj:
    """The same for clients that read the older kind; of several servers, the one that came last."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        # Its slice is made beside it.
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {**LABELS, SKIP_MIRROR_LABEL: "true"},
        },
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }


def own_slice(address: str, port: int) -> Obj:
    """Where the server really listens. Several servers of one store each have a slice of their own."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"kubernetes-{address.replace('.', '-').replace(':', '-')}-{port}",
            "namespace": "default",
            "labels": {**LABELS, "kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
