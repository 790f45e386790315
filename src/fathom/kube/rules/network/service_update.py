"""Updates of Services: allocated addresses stay; fields that a new type makes meaningless are dropped.

A client that does not know a field sends it empty. That must neither release an address nor be refused.
"""

from __future__ import annotations

from typing import Any

from fathom.model import causes
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_FIXED = "may not change once set"


def _needs_ip(spec: Obj) -> bool:
    return bool(spec.get("type") != "ExternalName")


def _needs_node_ports(spec: Obj) -> bool:
    return spec.get("type") in {"NodePort", "LoadBalancer"}


def _needs_health_port(spec: Obj) -> bool:
    return bool(spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")


def keep_allocated(spec: Obj, old: Obj) -> None:
    """Restore allocated fields that the update leaves empty."""
    if _needs_ip(spec) and _needs_ip(old):
        _keep_ips(spec, old)
    if _needs_node_ports(spec) and _needs_node_ports(old):
        _keep_node_ports(spec, old)
    if _needs_health_port(spec) and _needs_health_port(old) and old.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])
    if old.get("ipFamilyPolicy") and _needs_ip(spec):
        spec.setdefault("ipFamilyPolicy", old["ipFamilyPolicy"])


def _keep_ips(spec: Obj, old: Obj) -> None:
    ip, old_ip = spec.get("clusterIP"), old.get("clusterIP")
    if not ip and old_ip:
        spec["clusterIP"] = old_ip
    elif ip and ip != old_ip and spec.get("clusterIPs") == old.get("clusterIPs"):
        spec["clusterIPs"] = [ip]  # Only the older of the two fields was changed.
    if not spec.get("clusterIPs") and old.get("clusterIPs"):
        spec["clusterIPs"] = list(old["clusterIPs"])


def _keep_node_ports(spec: Obj, old: Obj) -> None:
    before = {port.get("name", ""): port.get("nodePort") for port in old.get("ports") or ()}
    taken = {port.get("nodePort") for port in spec.get("ports") or ()}
    for port in spec.get("ports") or ():
        old_port = before.get(port.get("name", ""))
        if not port.get("nodePort") and old_port and old_port not in taken:
            port["nodePort"] = old_port


def drop_what_no_longer_applies(spec: Obj, old: Obj) -> None:
    """Drops only fields that the caller did not change: a new value for such a field is refused instead."""
    if _needs_ip(old) and not _needs_ip(spec):
        _drop_unchanged(spec, old, "clusterIPs", "clusterIP", "ipFamilies", "ipFamilyPolicy")
    if _needs_node_ports(old) and not _needs_node_ports(spec):
        old_ports = {port.get("nodePort") for port in old.get("ports") or ()}
        if all(port.get("nodePort") in old_ports for port in spec.get("ports") or () if port.get("nodePort")):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if _needs_health_port(old) and not _needs_health_port(spec):
        _drop_unchanged(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_unchanged(spec, old, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if _is_external(old) and not _is_external(spec):
        _drop_unchanged(spec, old, "externalTrafficPolicy")
    if not _needs_ip(spec):
        spec.pop("internalTrafficPolicy", None)


def _is_external(spec: Obj) -> bool:
    return _needs_node_ports(spec) or bool(spec.get("type") == "ClusterIP" and spec.get("externalIPs"))


def _drop_unchanged(spec: Obj, old: Obj, *names: str) -> None:
    for name in names:
        if spec.get(name) == old.get(name):
            spec.pop(name, None)


def check_address_update(problems: list[Cause], spec: Obj, old: Obj) -> None:
    if _needs_ip(spec) and _needs_ip(old):
        ips, before = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
        if not (ips == ["None"] and before == ["None"]):
            _check_list(problems, ips, before, ("spec.clusterIPs", "clusterIP"), spec)
        if ips != ["None"] and before != ["None"]:
            families, old_families = spec.get("ipFamilies") or [], old.get("ipFamilies") or []
            _check_list(problems, families, old_families, ("spec.ipFamilies", "ipFamily"), spec)
    if spec.get("type") == old.get("type") == "LoadBalancer":
        lb_class = spec.get("loadBalancerClass")
        if lb_class != old.get("loadBalancerClass"):
            problems.append(causes.invalid("spec.loadBalancerClass", lb_class, _FIXED))
    port_changed = spec.get("healthCheckNodePort") != old.get("healthCheckNodePort")
    if port_changed and _needs_health_port(spec) and _needs_health_port(old):
        problems.append(causes.forbidden("spec.healthCheckNodePort", causes.IMMUTABLE))


def _check_list(
    problems: list[Cause], new: list[Any], old: list[Any], names: tuple[str, str], spec: Obj
) -> None:
    """The second value may be added or removed; the first one must stay."""
    field, value_name = names
    if len(new) == len(old):
        for index, (after, before) in enumerate(zip(new, old, strict=True)):
            if after != before:
                problems.append(causes.invalid(f"{field}[{index}]", new, _FIXED))
        return
    if not new:
        problems.append(causes.invalid(f"{field}[0]", new, f"primary {value_name} can not be unset"))
    elif old and new[0] != old[0]:
        problems.append(causes.invalid(f"{field}[0]", new, _FIXED))
    if len(new) == 1 and len(old) > 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {value_name}"
        problems.append(causes.invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))
