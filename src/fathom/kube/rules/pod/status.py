"""Rules of a pod's status: what an agent may report, and that finished containers stay finished."""

from __future__ import annotations

from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_STATUSES = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "",
}


def settle_addresses(status: Obj) -> None:
    """Make `podIP` and `podIPs` equal; `podIP` wins."""
    ip, ips = status.get("podIP"), status.get("podIPs")
    if ip and (not ips or ips[0].get("ip") != ip):
        status["podIPs"] = [{"ip": ip}]
    elif ips and not ip:
        status["podIP"] = ips[0].get("ip", "")


def keep_observed(status: Obj, old: Obj) -> None:
    """Keep the observed generations if the reporter does not know the field and leaves it out."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    before: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        before.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        generations = before.get(condition.get("type", ""))
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def check_pod_status(problems: list[Cause], new: Obj, old: Obj) -> None:
    """`new` and `old` are whole pods."""
    status, before = new.get("status") or {}, old.get("status") or {}
    _check_conditions(problems, status.get("conditions") or [])
    _check_nomination(problems, status, before, bound=bool((old.get("spec") or {}).get("nodeName")))
    if status.get("observedGeneration", 0) < 0:
        value = status["observedGeneration"]
        problems.append(causes.invalid("status.observedGeneration", value, "must be a non-negative integer"))
    problems += causes.unchanged("status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))
    for field, containers in _STATUSES.items():
        _check_transitions(
            problems, status.get(field) or [], before.get(field) or [], old, (field, containers)
        )
    _check_ips(problems, status, before)


def _check_conditions(problems: list[Cause], conditions: list[Obj]) -> None:
    for index, condition in enumerate(conditions):
        condition_field = f"status.conditions[{index}]"
        generation, kind = condition.get("observedGeneration", 0), condition.get("type", "")
        if generation < 0:
            where = f"{condition_field}.observedGeneration"
            problems.append(causes.invalid(where, generation, "must be a non-negative integer"))
        if kind not in _SYSTEM_CONDITIONS and (reasons := formats.qualified_name(kind)):
            problems += causes.each(f"{condition_field}.Type", kind, reasons)


def _check_nomination(problems: list[Cause], status: Obj, before: Obj, *, bound: bool) -> None:
    node = status.get("nominatedNodeName", "")
    if not node or node == before.get("nominatedNodeName", ""):
        return
    field = "status.nominatedNodeName"
    problems += causes.each(field, node, formats.dns_subdomain(node))
    if bound:
        problems.append(causes.forbidden(field, "may not be set on pods that are already bound to a node"))


def _check_transitions(
    problems: list[Cause], new: list[Obj], old: list[Obj], pod: Obj, names: tuple[str, str]
) -> None:
    field, containers = names
    spec = pod.get("spec") or {}
    new_by_name = {status.get("name"): status for status in new}
    for index, status in enumerate(old):
        terminated = (status.get("state") or {}).get("terminated")
        new_status = new_by_name.get(status.get("name"))
        if (
            terminated is None
            or new_status is None
            or (new_status.get("state") or {}).get("terminated") is not None
        ):
            continue
        if not containers or not _may_restart(spec, containers, status.get("name", ""), terminated):
            where = f"status.{field}[{index}].state"
            problems.append(causes.forbidden(where, "may not be transitioned to non-terminated state"))


def _may_restart(spec: Obj, containers: str, name: str, terminated: Obj) -> bool:
    container = next(
        (candidate for candidate in spec.get(containers) or () if candidate.get("name") == name), None
    )
    if container is None:
        return False
    if _may_restart_all(spec):
        return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    code = terminated.get("exitCode", 0)
    if any(_rule_restarts(rule, code) for rule in container.get("restartPolicyRules") or ()):
        return True
    return bool(policy == "Always" or (policy == "OnFailure" and code != 0))


def _may_restart_all(spec: Obj) -> bool:
    """Whether the end of one container can restart all of them, including those that have finished."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)


def _rule_restarts(rule: Obj, code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    listed = code in (codes.get("values") or ())
    return listed if codes.get("operator") == "In" else not listed


def _check_ips(problems: list[Cause], status: Obj, before: Obj) -> None:
    addresses = status.get("podIPs") or []
    old_ips = [address.get("ip") for address in before.get("podIPs") or ()]
    for index, address in enumerate(addresses):
        ip = address.get("ip", "")
        if ip not in old_ips:
            problems += causes.each(f"status.podIPs[{index}]", ip, formats.ip_address(ip))
    families = [formats.is_ipv6(address.get("ip", "")) for address in addresses]
    if len(addresses) > 1 and sorted(families) != [False, True]:
        detail = "may specify no more than one IP for each IP family"
        problems.append(causes.invalid("status.podIPs", addresses, detail))
