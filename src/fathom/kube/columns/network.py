"""Table columns of Services, endpoints and ingresses."""

from __future__ import annotations

from fathom.kube.columns.texts import NONE, UNSET, items, listed, part, selector_text, text
from fathom.model.objects import Obj, lookup


def service_cluster_ip(service: Obj, now_ns: int) -> str:
    ips = items(service, "spec", "clusterIPs")
    return str(ips[0]) if ips else text(service, "spec", "clusterIP", missing=NONE)


def service_external_ip(service: Obj, now_ns: int) -> str:
    kind, external_ips = text(service, "spec", "type"), items(service, "spec", "externalIPs")
    if kind == "ExternalName":
        return text(service, "spec", "externalName")
    if kind == "LoadBalancer":
        return ",".join([*_ingress_points(service), *external_ips]) or "<pending>"
    if kind in {"ClusterIP", "NodePort"}:
        return ",".join(external_ips) or NONE
    return "<unknown>"


def _ingress_points(obj: Obj) -> list[str]:
    points = items(obj, "status", "loadBalancer", "ingress")
    return sorted({text(point, "ip") or text(point, "hostname") for point in points} - {""})


def service_ports(service: Obj, now_ns: int) -> str:
    return ",".join(_port(port) for port in items(service, "spec", "ports")) or NONE


def _port(port: Obj) -> str:
    ports = f"{port.get('port', 0)}:{port['nodePort']}" if port.get("nodePort") else str(port.get("port", 0))
    return f"{ports}/{text(port, 'protocol')}"


def endpoints(obj: Obj, now_ns: int) -> str:
    host_ports: list[str] = []
    for subset in items(obj, "subsets"):
        addresses = [text(address, "ip") for address in items(subset, "addresses")]
        ports = items(subset, "ports")
        if not ports:
            host_ports += addresses
        for port in ports:
            host_ports += [_host_port(ip, port.get("port", 0)) for ip in addresses]
    return listed(host_ports, missing=NONE if not items(obj, "subsets") else "")


def _host_port(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def slice_ports(obj: Obj, now_ns: int) -> str:
    ports = [str(port.get("port") or port.get("name") or "*") for port in items(obj, "ports")]
    return listed(ports, missing=UNSET)


def slice_endpoints(obj: Obj, now_ns: int) -> str:
    addresses = [str(ip) for endpoint in items(obj, "endpoints") for ip in items(endpoint, "addresses")]
    return listed(addresses, missing=UNSET)


def ingress_hosts(obj: Obj, now_ns: int) -> str:
    hosts = [text(rule, "host") for rule in items(obj, "spec", "rules")]
    return listed([host for host in hosts if host], missing="*")


def ingress_address(obj: Obj, now_ns: int) -> str:
    return ",".join(_ingress_points(obj))


def ingress_ports(obj: Obj, now_ns: int) -> str:
    return "80, 443" if items(obj, "spec", "tls") else "80"


def ingressclass_parameters(obj: Obj, now_ns: int) -> str:
    parameters = part(obj, "spec", "parameters")
    if not parameters:
        return NONE
    group = text(parameters, "apiGroup")
    return f"{text(parameters, 'kind')}{f'.{group}' if group else ''}/{text(parameters, 'name')}"


def pod_selector(obj: Obj, now_ns: int) -> str:
    return selector_text(lookup(obj, "spec", "podSelector"))


def ip_parent(obj: Obj, now_ns: int) -> str:
    parent = part(obj, "spec", "parentRef")
    if not parent:
        return NONE
    group, namespace = text(parent, "group"), text(parent, "namespace")
    resource = f"{text(parent, 'resource')}{f'.{group}' if group else ''}".lower()
    return "/".join(segment for segment in (resource, namespace, text(parent, "name")) if segment)
