"""Rules of a Service's ports."""

from __future__ import annotations

from fathom.kube.rules.pod.containers import PROTOCOLS
from fathom.kube.rules.pod.probes import check_port
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj


def default_ports(spec: Obj) -> None:
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]


def check_ports(problems: list[Cause], spec: Obj) -> None:
    ports = spec.get("ports") or []
    port_names: set[str] = set()
    for index, port in enumerate(ports):
        _check_service_port(problems, port, f"spec.ports[{index}]", port_names, named=len(ports) > 1)
        if spec["type"] == "ClusterIP" and port.get("nodePort"):
            detail = "may not be used when `type` is 'ClusterIP'"
            problems.append(causes.forbidden(f"spec.ports[{index}].nodePort", detail))
    _check_distinct(problems, ports)


def _check_service_port(
    problems: list[Cause], port: Obj, field: str, names: set[str], *, named: bool
) -> None:
    name, number, protocol = port.get("name", ""), port.get("port", 0), port.get("protocol", "")
    if name:
        problems += causes.each(f"{field}.name", name, formats.dns_label(name))
        if name in names:
            problems.append(causes.duplicate(f"{field}.name", name))
        names.add(name)
    elif named:
        problems.append(causes.required(f"{field}.name"))
    problems += causes.each(f"{field}.port", number, formats.port_number(number))
    if not protocol:
        problems.append(causes.required(f"{field}.protocol"))
    elif protocol not in PROTOCOLS:
        problems.append(causes.not_supported(f"{field}.protocol", protocol, PROTOCOLS))
    check_port(problems, port.get("targetPort", number), f"{field}.targetPort")
    if "appProtocol" in port:
        app = port["appProtocol"]
        problems += causes.each(f"{field}.appProtocol", app, formats.qualified_name(app))


def _check_distinct(problems: list[Cause], ports: list[Obj]) -> None:
    node_ports: set[tuple[str, int]] = set()
    service_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        protocol, number, node_port = port.get("protocol", ""), port.get("port", 0), port.get("nodePort", 0)
        if node_port:
            if (protocol, node_port) in node_ports:
                problems.append(causes.duplicate(f"spec.ports[{index}].nodePort", node_port))
            node_ports.add((protocol, node_port))
        if (protocol, number) in service_ports:
            duplicate_port = {"port": number, "protocol": protocol, "targetPort": 0}
            problems.append(causes.duplicate(f"spec.ports[{index}]", duplicate_port))
        service_ports.add((protocol, number))
