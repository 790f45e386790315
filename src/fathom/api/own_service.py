"""The API server as a Service: `default/kubernetes`, by which programs inside of pods find it. Pure.

Its address is the first of the services' range, as everywhere; the gateway answers there like for any other.
"""

from __future__ import annotations

from fathom.api.admission.addresses import ADDRESSES
from fathom.model.objects import Obj

ADDRESS = str(ADDRESSES.network_address + 1)
PORT = 443
LABELS = {"component": "apiserver", "provider": "kubernetes"}


def own_service() -> Obj:
    port = {"name": "https", "port": PORT, "protocol": "TCP", "targetPort": PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": LABELS},
        "spec": {"type": "ClusterIP", "clusterIP": ADDRESS, "clusterIPs": [ADDRESS], "ports": [port]},
    }


def own_endpoints(address: str, port: int) -> Obj:
    """The same for clients that read the older kind; of several servers, the one that came last."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": LABELS},
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
