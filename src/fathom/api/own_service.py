"""The API server as a Service: `default/kubernetes`, by which programs inside pods find it. Pure.

Its address is one of the first of the service range, as in Kubernetes; the gateway serves it like any other.
Clusters on one machine share the loopback interface, so each has an address of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from fathom.api.admission.addresses import ADDRESSES, kept_addresses
from fathom.model.objects import Obj
from fathom.model.well_known import SKIP_MIRROR_LABEL

KEY = "/registry/services/default/kubernetes"
PORTS = (443, 6443, 8443)  # The first is Kubernetes'; it may need root, or be in use on every address.
USUAL_PORT = 6443  # The usual port of an API server.
LABELS = {"component": "apiserver", "provider": "kubernetes"}


def own_addresses(port: int, addresses: IPv4Network = ADDRESSES) -> Iterator[str]:
    """Addresses that a server at this port may have, the likeliest first: the first of the range for the
    usual port. Other ports start elsewhere, so that two clusters created at the same moment do not
    collide."""
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
    """The same for clients that read Endpoints; of several servers, the last one to start."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        # Not mirrored: its EndpointSlice is written beside it.
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {**LABELS, SKIP_MIRROR_LABEL: "true"},
        },
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }


def own_slice(address: str, port: int) -> Obj:
    """The address at which the server really listens. Servers that share a store each have a slice of their
    own."""
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
