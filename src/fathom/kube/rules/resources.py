"""Rules of resource names and amounts: in containers, nodes and quotas.

Amounts come in canonical form from the decoder, so that equal amounts are mostly equal strings; here they are
rounded up to thousandths, as kube-apiserver keeps them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj
from fathom.model.quantity import ZERO, Quantity, parse

CPU, MEMORY, EPHEMERAL = "cpu", "memory", "ephemeral-storage"
HUGEPAGES = "hugepages-"
_NATIVE_PREFIX = "kubernetes.io/"

_COMPUTE = frozenset({CPU, MEMORY, EPHEMERAL})
_COUNTED = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_QUALIFIED_COMPUTE = frozenset(
    f"{side}.{name}" for side in ("requests", "limits") for name in (CPU, MEMORY, EPHEMERAL)
)
_STANDARD = _COMPUTE | _COUNTED | _QUALIFIED_COMPUTE | {"storage", "requests.storage"}
_QUOTA = _STANDARD - {"storage"}

CLAIMS_LISTED_MAX = 10  # The claims that the error about an unknown claim lists.

NameCheck = Callable[[list[Cause], str, str], None]


def is_hugepages(name: str) -> bool:
    return name.startswith(HUGEPAGES)


def is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_PREFIX in name


def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not formats.qualified_name(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_hugepages(name)


def is_counted(name: str) -> bool:
    """Whether amounts of the resource must be whole numbers."""
    return name in _COUNTED or is_extended(name)


def is_quota_name(name: str) -> bool:
    return name in _QUOTA or is_hugepages(name) or name.startswith("requests.hugepages-")


def check_name(problems: list[Cause], name: str, field: str) -> bool:
    if reasons := formats.qualified_name(name):
        problems += causes.each(field, name, reasons)
        return False
    if "/" in name or name in _STANDARD or is_hugepages(name) or name.startswith("requests.hugepages-"):
        return True
    problems.append(causes.invalid(field, name, "must be a standard resource type or fully qualified"))
    return False


def check_container_name(problems: list[Cause], name: str, field: str) -> None:
    if name in _COMPUTE:
        return
    check_name(problems, name, field)
    if "/" not in name:
        if not is_hugepages(name):
            problems.append(causes.invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        problems.append(causes.invalid(field, name, "doesn't follow extended resource name standard"))


def check_pod_level_name(problems: list[Cause], name: str, field: str) -> None:
    if check_name(problems, name, field) and name not in {CPU, MEMORY} and not is_hugepages(name):
        problems.append(causes.not_supported(field, name, (CPU, HUGEPAGES, MEMORY)))


def check_quota_name(problems: list[Cause], name: str, field: str) -> None:
    check_name(problems, name, field)
    if "/" not in name and not is_quota_name(name):
        problems.append(causes.invalid(field, name, "must be a standard resource for quota"))


def check_amount(problems: list[Cause], name: str, amount: Quantity, field: str) -> None:
    if amount.nano < 0:
        problems.append(causes.invalid(field, str(amount), causes.MUST_NOT_BE_NEGATIVE))
    if name not in _COMPUTE and is_counted(name) and amount.milli % 1000:
        problems.append(causes.invalid(field, str(amount), "must be an integer"))


def check_requirements(
    problems: list[Cause], requirements: Obj, field: str, names: NameCheck = check_container_name
) -> None:
    """`resources` of a container: known names, amounts in range, no request above its limit."""
    limits: Obj = requirements.get("limits") or {}
    requests: Obj = requirements.get("requests") or {}
    for name, text in limits.items():
        _check_entry(problems, name, parse(text), f"{field}.limits[{name}]", names)
    for name, text in requests.items():
        amount = parse(text)
        _check_entry(problems, name, amount, f"{field}.requests[{name}]", names)
        _check_against_limit(problems, name, amount, limits, field)
    _check_hugepages_require_cpu_or_memory(problems, limits, requests, field)


def _check_entry(problems: list[Cause], name: str, amount: Quantity, field: str, names: NameCheck) -> None:
    names(problems, name, field)
    check_amount(problems, name, amount, field)
    if is_hugepages(name) and not _fits_pages(name, amount):
        detail = f"{amount} is not positive integer multiple of {name}"
        problems.append(causes.invalid(field, str(amount), detail))


def _fits_pages(name: str, amount: Quantity) -> bool:
    try:
        page = parse(name.removeprefix(HUGEPAGES))
    except ValueError:
        return False
    return page.nano > 0 and page.is_whole and amount.value % page.value == 0


def _check_against_limit(problems: list[Cause], name: str, amount: Quantity, limits: Obj, field: str) -> None:
    text = limits.get(name)
    if text is None:
        if not may_overcommit(name):
            detail = "Limit must be set for non overcommitable resources"
            problems.append(causes.required(f"{field}.limits", detail))
        return
    limit = parse(text)
    if amount == limit:
        return
    if not may_overcommit(name):
        detail = f"must be equal to {name} limit of {limit}"
        problems.append(causes.invalid(f"{field}.requests", str(amount), detail))
    elif amount > limit:
        detail = f"must be less than or equal to {name} limit of {limit}"
        problems.append(causes.invalid(f"{field}.requests", str(amount), detail))


def _check_hugepages_require_cpu_or_memory(
    problems: list[Cause], limits: Obj, requests: Obj, field: str
) -> None:
    resources = {**limits, **requests}
    if CPU in resources or MEMORY in resources:
        return
    if any(is_hugepages(name) for name in resources):
        problems.append(causes.forbidden(field, "HugePages require cpu or memory"))


class DeclaredClaims(frozenset[str]):
    """The names in `resourceClaims` of a pod."""

    @cached_property
    def in_words(self) -> str:
        """The valid names; only the first of them if there are very many. Made once: a pod may use thousands
        of others."""
        first = heapq.nsmallest(CLAIMS_LISTED_MAX, self)
        more = f" and {len(self) - len(first)} more" if len(self) > len(first) else ""
        listed = f": {', '.join(first)}{more}" if self else " which is empty"
        return f"must be one of the names in pod.spec.resourceClaims{listed}"


def check_claims(problems: list[Cause], claims: list[Obj], field: str, declared: DeclaredClaims) -> None:
    """`resources.claims`: each names one of the pod's resource claims, once."""
    whole: set[str] = set()  # Claims used without a request: this uses all of their requests.
    parts: set[tuple[str, str]] = set()
    named: set[str] = set()
    for index, claim in enumerate(claims):
        claim_field = f"{field}[{index}]"
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            problems.append(causes.required(claim_field))
            continue
        if name in whole or (name, request) in parts or (not request and name in named):
            shown = f"{name}/{request}" if request and name not in whole else name
            problems.append(causes.duplicate(claim_field, shown))
        named.add(name)
        if request:
            parts.add((name, request))
        else:
            whole.add(name)
        if name not in declared:
            problems.append(causes.not_found(claim_field, name, declared.in_words))


def settle_requirements(requirements: Obj) -> None:
    """Round the amounts of `resources` up to thousandths, in place. Hardly any amount is finer than that."""
    for side in ("limits", "requests"):
        amounts = requirements.get(side)
        if amounts:
            settle_amounts(amounts)


def settle_amounts(amounts: Obj) -> None:
    for name, text in amounts.items():
        if text[-1] in "nu" or "e-" in text:
            amounts[name] = str(parse(text).rounded_to_milli())


def qos_class(spec: Obj) -> str:
    """BestEffort requests nothing, Guaranteed has limits equal to its requests, Burstable is the rest."""
    pod_level = spec.get("resources")
    if pod_level and (pod_level.get("requests") or pod_level.get("limits")):
        return _requirements_class(pod_level)
    classes = [
        _requirements_class(container.get("resources") or {})
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
    ]
    if not classes:
        return "BestEffort"
    return classes[0] if all(qos == classes[0] for qos in classes) else "Burstable"


def _requirements_class(requirements: Mapping[str, Any]) -> str:
    requests, limits = requirements.get("requests") or {}, requirements.get("limits") or {}
    if not requests and not limits:
        return "BestEffort"
    classes = [_amount_class(requests.get(name), limits.get(name)) for name in (CPU, MEMORY)]
    return classes[0] if classes[0] == classes[1] else "Burstable"


def _amount_class(request: Any, limit: Any) -> str:
    requested = ZERO if request is None else parse(request)
    limited = ZERO if limit is None else parse(limit)
    if requested != limited:
        return "Burstable"
    return "Guaranteed" if requested else "BestEffort"
