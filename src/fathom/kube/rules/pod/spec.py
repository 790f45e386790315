"""Rules of a pod's spec, in a pod or in the template of a workload."""

from __future__ import annotations

from fathom.kube.rules.metadata import annotation_causes, label_causes
from fathom.kube.rules.pod.affinity import check_affinity, check_spread, check_tolerations
from fathom.kube.rules.pod.containers import (
    PodScope,
    check_containers,
    check_ephemeral_containers,
    check_init_containers,
)
from fathom.kube.rules.pod.security import check_pod_context
from fathom.kube.rules.pod.volumes import check_volumes
from fathom.kube.rules.resources import DeclaredClaims, check_pod_level_name, check_requirements
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.mirror import MIRROR
from fathom.model.objects import Obj
from fathom.model.well_known import DELETION_COST_ANNOTATION

NO_CLAIMS = DeclaredClaims()
RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_NAMESERVERS_MAX, _SEARCHES_MAX, _SEARCH_CHARS_MAX = 3, 32, 2048
_INT32_MAX = 2147483647

# Fields of a spec that are names of other objects, or other DNS labels.
_SUBDOMAINS = ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName")
_LABELS = ("hostname", "subdomain")


def check_pod_spec(problems: list[Cause], spec: Obj, field: str, meta: Obj | None = None) -> None:
    """`meta` is given for a pod, not for a template."""
    volumes = spec.get("volumes")
    name = (meta or {}).get("name", "")
    claims = spec.get("resourceClaims")
    os = (spec.get("os") or {}).get("name", "")
    scope = PodScope(
        check_volumes(problems, volumes, f"{field}.volumes", name) if volumes else {},
        DeclaredClaims(claim.get("name", "") for claim in claims) if claims else NO_CLAIMS,
        spec.get("terminationGracePeriodSeconds"),
        spec.get("restartPolicy", "Always"),
        os,
        spec.get("hostUsers", True),
        meta is not None,
    )
    if claims:
        _check_resource_claims(problems, claims, f"{field}.resourceClaims")
    _check_all_containers(problems, spec, field, scope)
    _check_choices(problems, spec, field)
    _check_names(problems, spec, field)
    _check_placement(problems, spec, field)
    _check_host(problems, spec, field, is_pod=scope.is_pod)
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        _check_dns(problems, spec, f"{field}.dnsConfig")
    if os:
        _check_os(problems, spec, os, field)
    if amounts := spec.get("overhead"):
        check_requirements(problems, {"limits": amounts}, f"{field}.overhead")
    if resources := spec.get("resources"):
        _check_pod_resources(problems, resources, spec, f"{field}.resources")


def _check_all_containers(problems: list[Cause], spec: Obj, field: str, scope: PodScope) -> None:
    regular = spec.get("containers") or []
    check_containers(problems, regular, f"{field}.containers", scope)
    init = spec.get("initContainers") or []
    if init:
        check_init_containers(problems, init, regular, f"{field}.initContainers", scope)
    if ephemeral := spec.get("ephemeralContainers"):
        target_containers = [*regular, *init]
        check_ephemeral_containers(
            problems, ephemeral, target_containers, f"{field}.ephemeralContainers", scope
        )


def _check_choices(problems: list[Cause], spec: Obj, field: str) -> None:
    restart, dns = spec.get("restartPolicy"), spec.get("dnsPolicy")
    if restart and restart not in RESTART_POLICIES:
        problems.append(causes.not_supported(f"{field}.restartPolicy", restart, RESTART_POLICIES))
    if dns and dns not in _DNS_POLICIES:
        problems.append(causes.not_supported(f"{field}.dnsPolicy", dns, _DNS_POLICIES))
    preemption = spec.get("preemptionPolicy")
    if preemption is not None:
        check_preemption_policy(problems, preemption, f"{field}.preemptionPolicy")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _INT32_MAX:
        detail = f"must be between 1 and {_INT32_MAX}, inclusive"
        problems.append(causes.invalid(f"{field}.activeDeadlineSeconds", deadline, detail))


def check_preemption_policy(problems: list[Cause], policy: str, field: str) -> None:
    if not policy:
        problems.append(causes.required(field))
    elif policy not in _PREEMPTION_POLICIES:
        problems.append(causes.not_supported(field, policy, _PREEMPTION_POLICIES))


def _check_names(problems: list[Cause], spec: Obj, field: str) -> None:
    for name in _SUBDOMAINS:
        value = spec.get(name)
        if value and (reasons := formats.dns_subdomain(value)):
            problems += causes.each(f"{field}.{name}", value, reasons)
    for name in _LABELS:
        value = spec.get(name)
        if value and (reasons := formats.dns_label(value)):
            problems += causes.each(f"{field}.{name}", value, reasons)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        where = f"{field}.readinessGates[{index}].conditionType"
        problems += causes.each(where, kind, formats.qualified_name(kind))
    if gates := spec.get("schedulingGates"):
        _check_gates(problems, gates, f"{field}.schedulingGates")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        _check_alias(problems, alias, f"{field}.hostAliases[{index}]")


def _check_gates(problems: list[Cause], gates: list[Obj], field: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        problems += causes.each(f"{field}[{index}]", name, formats.qualified_name(name))
        if name in seen:
            problems.append(causes.duplicate(f"{field}[{index}]", name))
        seen.add(name)


def _check_alias(problems: list[Cause], alias: Obj, field: str) -> None:
    ip = alias.get("ip", "")
    problems += causes.each(f"{field}.ip", ip, formats.ip_address(ip))
    for index, host in enumerate(alias.get("hostnames") or ()):
        problems += causes.each(f"{field}.hostnames[{index}]", host, formats.dns_subdomain(host))


def _check_placement(problems: list[Cause], spec: Obj, field: str) -> None:
    if selector := spec.get("nodeSelector"):
        problems += label_causes(selector, f"{field}.nodeSelector")
    if affinity := spec.get("affinity"):
        check_affinity(problems, affinity, f"{field}.affinity")
    if tolerations := spec.get("tolerations"):
        check_tolerations(problems, tolerations, f"{field}.tolerations")
    if constraints := spec.get("topologySpreadConstraints"):
        check_spread(problems, constraints, f"{field}.topologySpreadConstraints")


def _check_host(problems: list[Cause], spec: Obj, field: str, *, is_pod: bool) -> None:
    """What a pod that shares the node's network, users or processes must not set."""
    if context := spec.get("securityContext"):
        check_pod_context(problems, context, spec, f"{field}.securityContext")
    if spec.get("hostNetwork"):
        _check_host_network(problems, spec, field, is_pod=is_pod)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        problems.append(causes.invalid(f"{field}.shareProcessNamespace", True, detail))
    if spec.get("hostUsers") is False:
        for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                problems.append(causes.forbidden(f"{field}.{shown}", "when `hostUsers` is false"))


def _check_host_network(problems: list[Cause], spec: Obj, field: str, *, is_pod: bool) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort", 0)
            if (is_pod or host) and host != port.get("containerPort"):
                where = f"{field}.containers[{index}].ports[{number}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                problems.append(causes.invalid(where, host, detail))


def _check_dns(problems: list[Cause], spec: Obj, field: str) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            problems.append(causes.required(field, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            problems.append(causes.required(f"{field}.nameservers", detail))
            return
    servers, searches = (config or {}).get("nameservers") or [], (config or {}).get("searches") or []
    if len(servers) > _NAMESERVERS_MAX:
        detail = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        problems.append(causes.invalid(f"{field}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        problems += causes.each(f"{field}.nameservers[{index}]", server, formats.ip_address(server))
    _check_searches(problems, searches, f"{field}.searches")
    for index, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            problems.append(causes.required(f"{field}.options[{index}]", "must not be empty"))


def _check_searches(problems: list[Cause], searches: list[str], field: str) -> None:
    if len(searches) > _SEARCHES_MAX:
        detail = f"must not have more than {_SEARCHES_MAX} search paths"
        problems.append(causes.invalid(field, searches, detail))
    if len(" ".join(searches)) > _SEARCH_CHARS_MAX:
        words = "characters (including spaces) in the search list"
        problems.append(
            causes.invalid(field, searches, f"must not have more than {_SEARCH_CHARS_MAX} {words}")
        )
    for index, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            reasons = formats.dns_subdomain_underscored(domain)
            problems += causes.each(f"{field}[{index}]", domain, reasons)


def _check_resource_claims(problems: list[Cause], claims: list[Obj], field: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        claim_field, name = f"{field}[{index}]", claim.get("name", "")
        if not name:
            problems.append(causes.required(f"{claim_field}.name"))
        elif name in seen:
            problems.append(causes.duplicate(f"{claim_field}.name", name))
        else:
            problems += causes.each(f"{claim_field}.name", name, formats.dns_label(name))
        seen.add(name)
        sources = [source for source in ("resourceClaimName", "resourceClaimTemplateName") if source in claim]
        if len(sources) == 2:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            problems.append(causes.invalid(claim_field, claim, detail))
        elif not sources:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            problems.append(causes.invalid(claim_field, claim, detail))
        for source in sources:
            problems += causes.each(
                f"{claim_field}.{source}", claim[source], formats.dns_subdomain(claim[source])
            )


def _check_os(problems: list[Cause], spec: Obj, os: str, field: str) -> None:
    if os not in {"linux", "windows"}:
        problems.append(causes.not_supported(f"{field}.os", os, ("linux", "windows")))
    elif os == "linux" and "windowsOptions" in (spec.get("securityContext") or {}):
        detail = "windows options cannot be set for a linux pod"
        problems.append(causes.forbidden(f"{field}.securityContext.windowsOptions", detail))


def _check_pod_resources(problems: list[Cause], resources: Obj, spec: Obj, field: str) -> None:
    if (spec.get("os") or {}).get("name") == "windows":
        problems.append(causes.forbidden(field, "may not be set for a windows pod"))
        return
    if "claims" in resources:
        detail = "claims may not be set for Resources at pod-level"
        problems.append(causes.forbidden(f"{field}.claims", detail))
    check_requirements(problems, resources, field, check_pod_level_name)


def check_annotations(problems: list[Cause], annotations: Obj, spec: Obj, field: str) -> None:
    """The few annotations that have a meaning for a pod."""
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        problems.append(causes.invalid(f"{field}[{MIRROR}]", annotations[MIRROR], detail))
    cost = annotations.get(DELETION_COST_ANNOTATION)
    if cost is not None and not _is_int32(cost):
        problems.append(
            causes.invalid(f"{field}[{DELETION_COST_ANNOTATION}]", cost, "must be a 32bit integer")
        )


def _is_int32(text: str) -> bool:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or (digits != "0" and digits.startswith("0")):
        return False
    return len(digits) <= 10 and -_INT32_MAX - 1 <= int(text) <= _INT32_MAX


def check_pod_template(problems: list[Cause], template: Obj, field: str) -> None:
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    if labels := meta.get("labels"):
        problems += label_causes(labels, f"{field}.labels")
    if annotations := meta.get("annotations"):
        problems += annotation_causes(annotations, f"{field}.annotations")
        check_annotations(problems, annotations, spec, f"{field}.annotations")
    check_pod_spec(problems, spec, f"{field}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        problems.append(causes.forbidden(f"{field}.spec.ephemeralContainers", detail))
