"""Rules of Services. Addresses are not allocated here; requested ones are made consistent and validated."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.metadata import label_causes
from fathom.kube.rules.network.service_ports import check_ports, default_ports
from fathom.kube.rules.network.service_update import (
    check_address_update,
    drop_what_no_longer_applies,
    keep_allocated,
)
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, metadata

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
NONE = "None"
_FAMILIES, _FAMILY_POLICIES = ("IPv4", "IPv6"), ("PreferDualStack", "RequireDualStack", "SingleStack")
_AFFINITY_S_MAX, _AFFINITY_S_DEFAULT = 86400, 10800
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LB_ONLY = "may only be used when `type` is 'LoadBalancer'"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"


class ServiceRules(KindRules):
    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        kind = spec.setdefault("type", "ClusterIP")
        _default_affinity(spec)
        default_ports(spec)
        if externally_accessible(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind in {"NodePort", "LoadBalancer", "ClusterIP"}:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        _default_families(spec)

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        spec, before = obj["spec"], old.get("spec") or {}
        keep_allocated(spec, before)
        drop_what_no_longer_applies(spec, before)
        if spec["type"] != "LoadBalancer" and (obj.get("status") or {}).get("loadBalancer"):
            obj["status"] = {**obj["status"], "loadBalancer": {}}
        _default_families(spec)

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj["spec"]
        _check_type(problems, spec)
        check_ports(problems, spec)
        if selector := spec.get("selector"):
            problems += label_causes(selector, "spec.selector")
        _check_affinity(problems, spec)
        if spec["type"] != "ExternalName":
            _check_addresses(problems, spec)
        _check_external(problems, obj)
        _check_traffic(problems, spec)
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        check_address_update(problems, obj["spec"], old.get("spec") or {})
        return problems + self.validate_create(obj)

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        points = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        field = "status.loadBalancer.ingress"
        if points and (obj.get("spec") or {}).get("type") != "LoadBalancer":
            detail = "may only be used when `spec.type` is 'LoadBalancer'"
            return [causes.forbidden(field, detail)]
        for index, point in enumerate(points):
            _check_ingress(problems, point, f"{field}[{index}]")
        return problems


def is_headless(spec: Obj) -> bool:
    return spec.get("clusterIPs") == [NONE]


def externally_accessible(spec: Obj) -> bool:
    kind = spec.get("type")
    return kind in {"LoadBalancer", "NodePort"} or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _default_affinity(spec: Obj) -> None:
    if spec.get("sessionAffinity", "None") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if "timeoutSeconds" not in client:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_S_DEFAULT}}


def _default_families(spec: Obj) -> None:
    """The families follow the addresses; without an address, a fathom cluster is IPv4. A headless service
    without a selector may point anywhere."""
    if spec["type"] == "ExternalName":
        return
    headless_without_selector = spec.get("clusterIP") == NONE and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless_without_selector else "SingleStack")
    if spec.get("ipFamilies"):
        return
    if headless_without_selector:
        spec["ipFamilies"] = ["IPv4", "IPv6"]
        return
    ips = [ip for ip in spec.get("clusterIPs") or () if ip != NONE]
    spec["ipFamilies"] = ["IPv6" if formats.is_ipv6(ip) else "IPv4" for ip in ips] or ["IPv4"]


def _check_type(problems: list[Cause], spec: Obj) -> None:
    kind = spec["type"]
    if kind not in TYPES:
        problems.append(causes.not_supported("spec.type", kind, TYPES))
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        problems.append(causes.required("spec.ports"))
    if kind in {"LoadBalancer", "NodePort"} and is_headless(spec):
        detail = f"may not be set to 'None' for {kind} services"
        problems.append(causes.invalid("spec.clusterIPs[0]", NONE, detail))
    if kind == "ExternalName":
        _check_external_name(problems, spec)


def _check_external_name(problems: list[Cause], spec: Obj) -> None:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            problems.append(causes.forbidden(f"spec.{name}", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        problems.append(causes.required("spec.externalName"))
    else:
        problems += causes.each("spec.externalName", name, formats.dns_subdomain(name))


def _check_affinity(problems: list[Cause], spec: Obj) -> None:
    affinity, config = spec.get("sessionAffinity", "None"), spec.get("sessionAffinityConfig")
    field = "spec.sessionAffinityConfig"
    if affinity == "None":
        if config is not None:
            detail = "must not be set when session affinity is None"
            problems.append(causes.forbidden(field, detail))
    elif affinity != "ClientIP":
        problems.append(causes.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None")))
    else:
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", _AFFINITY_S_DEFAULT)
        if not 0 < seconds <= _AFFINITY_S_MAX:
            detail = f"must be greater than 0 and less than {_AFFINITY_S_MAX}"
            problems.append(causes.invalid(f"{field}.clientIP.timeoutSeconds", seconds, detail))


def _check_addresses(problems: list[Cause], spec: Obj) -> None:
    ip, ips, field = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], "spec.clusterIPs"
    if ip and not ips:
        problems.append(causes.required(field))
    elif ip and ips[0] != ip:
        problems.append(causes.invalid(field, ips, "first value must match `clusterIP`"))
    elif not ip and ips:
        problems.append(causes.invalid(field, ips, "must be empty when `clusterIP` is not specified"))
    _check_families(problems, spec)
    before = len(problems)
    for index, address in enumerate(ips):
        if index == 0 and address == NONE:
            if len(ips) > 1:
                problems.append(causes.invalid(field, ips, "'None' must be the first and only value"))
        else:
            problems += causes.each(f"{field}[{index}]", address, formats.ip_address(address))
    malformed = len(problems) > before
    if len(ips) > 2:
        problems.append(causes.invalid(field, ips, "may only hold up to 2 values"))
    if malformed or is_headless(spec):
        return
    if len(ips) > 1 and sorted(formats.is_ipv6(address) for address in ips) != [False, True]:
        detail = "may specify no more than one IP for each IP family"
        problems.append(causes.invalid(field, ips, detail))
    for index, (address, family) in enumerate(zip(ips, spec.get("ipFamilies") or (), strict=False)):
        if formats.is_ipv6(address) != (family == "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            problems.append(causes.invalid(f"{field}[{index}]", address, detail))


def _check_families(problems: list[Cause], spec: Obj) -> None:
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in _FAMILIES:
            problems.append(causes.not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            problems.append(causes.duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        problems.append(causes.not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))


def _check_external(problems: list[Cause], obj: Obj) -> None:
    """The fields that expose a service outside the cluster."""
    spec = obj["spec"]
    is_lb = spec["type"] == "LoadBalancer"
    for index, ip in enumerate(spec.get("externalIPs") or ()):
        reasons = formats.ip_address(ip) or formats.endpoint_ip(ip)
        problems += causes.each(f"spec.externalIPs[{index}]", ip, reasons)
    ranges, field = spec.get("loadBalancerSourceRanges") or [], "spec.LoadBalancerSourceRanges"
    if ranges and not is_lb:
        problems.append(causes.forbidden(field, _LB_ONLY))
    for index, cidr in enumerate(ranges):
        problems += causes.each(f"{field}[{index}]", cidr.strip(), formats.cidr(cidr.strip()))
    if not ranges and _RANGES in (metadata(obj).get("annotations") or {}) and not is_lb:
        problems.append(causes.forbidden(f"metadata.annotations[{_RANGES}]", _LB_ONLY))
    if "allocateLoadBalancerNodePorts" in spec and not is_lb:
        problems.append(causes.forbidden("spec.allocateLoadBalancerNodePorts", _LB_ONLY))
    lb_class = spec.get("loadBalancerClass")
    if lb_class is not None and not is_lb:
        problems.append(causes.forbidden("spec.loadBalancerClass", _LB_ONLY))
    elif lb_class is not None:
        problems += causes.each("spec.loadBalancerClass", lb_class, formats.qualified_name(lb_class))


def _check_traffic(problems: list[Cause], spec: Obj) -> None:
    external, internal = spec.get("externalTrafficPolicy", ""), spec.get("internalTrafficPolicy")
    field = "spec.externalTrafficPolicy"
    if not externally_accessible(spec):
        if external:
            detail = "may only be set for externally-accessible services"
            problems.append(causes.invalid(field, external, detail))
    elif external not in _POLICIES:
        problems.append(
            causes.not_supported(field, external, _POLICIES) if external else causes.required(field)
        )
    port = spec.get("healthCheckNodePort", 0)
    if port and not (spec["type"] == "LoadBalancer" and external == "Local"):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        problems.append(causes.invalid("spec.healthCheckNodePort", port, detail))
    elif port:
        problems += causes.each("spec.healthCheckNodePort", port, formats.port_number(port))
    if internal is not None and internal not in _POLICIES:
        problems.append(causes.not_supported("spec.internalTrafficPolicy", internal, _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        problems.append(causes.not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))


def _check_ingress(problems: list[Cause], ingress: Obj, field: str) -> None:
    ip, mode, host = ingress.get("ip", ""), ingress.get("ipMode"), ingress.get("hostname", "")
    if ip:
        problems += causes.each(f"{field}.ip", ip, formats.ip_address(ip))
    if mode is None:
        if ip:
            problems.append(causes.required(f"{field}.ipMode", "must be specified when `ip` is set"))
    elif not ip:
        problems.append(causes.forbidden(f"{field}.ipMode", "may not be specified when `ip` is not set"))
    elif mode not in {"VIP", "Proxy"}:
        problems.append(causes.not_supported(f"{field}.ipMode", mode, ("Proxy", "VIP")))
    if host:
        problems += causes.each(f"{field}.hostname", host, formats.dns_subdomain(host))
        if not formats.ip_address(host):
            detail = "must be a DNS name, not an IP address"
            problems.append(causes.invalid(f"{field}.hostname", host, detail))
