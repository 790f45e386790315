"""Rules of Nodes. A node registers itself with its status: that is why creation keeps the status."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules
from fathom.kube.rules.pod.affinity import TAINT_EFFECTS
from fathom.kube.rules.resources import check_amount, settle_amounts
from fathom.model import causes, formats
from fathom.model.body import encode_sorted
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj
from fathom.model.quantity import parse

_CIDR_CHANGED = 'node updates may not change podCIDR except from "" to valid'


class NodeRules(KindRules):
    keeps_status_at_create = True

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        cidr, cidrs = spec.get("podCIDR"), spec.get("podCIDRs")
        if cidr and not cidrs:
            spec["podCIDRs"] = [cidr]
        elif cidrs and not cidr:
            spec["podCIDR"] = cidrs[0]
        status = obj.get("status")
        if status:
            _default_status(status)

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj.get("spec") or {}
        check_taints(problems, spec.get("taints") or [], "metadata.taints")
        _check_resources(problems, obj.get("status") or {})
        _check_cidrs(problems, spec.get("podCIDRs") or [])
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        _check_addresses(problems, obj.get("status") or {})
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            problems.append(causes.forbidden("spec.podCIDRs", _CIDR_CHANGED))
        provider, old_provider = spec.get("providerID", ""), before.get("providerID", "")
        if old_provider and provider != old_provider:
            detail = f"field cannot be {'modified' if provider else 'cleared'} once set"
            problems.append(causes.invalid("spec.providerID", None, detail))
        if spec.get("externalID", "") != before.get("externalID", ""):
            problems.append(causes.forbidden("spec.externalID", "may not be updated"))
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        status = obj.get("status") or {}
        _check_resources(problems, status)
        _check_addresses(problems, status)
        return problems

    def field(self, obj: Obj, path: str) -> str | None:
        if path == "spec.unschedulable":
            return "true" if (obj.get("spec") or {}).get("unschedulable") else "false"
        return None


def _default_status(status: Obj) -> None:
    capacity = status.get("capacity")
    if capacity and "allocatable" not in status:
        status["allocatable"] = dict(capacity)
    for amounts in (capacity, status.get("allocatable")):
        if amounts:
            settle_amounts(amounts)


def check_taints(problems: list[Cause], taints: list[Obj], field: str) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        taint_field = f"{field}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        problems += causes.each(f"{taint_field}.key", key, formats.qualified_name(key))
        if reasons := formats.label_value(value):
            problems.append(causes.invalid(f"{taint_field}.value", value, ";".join(reasons)))
        if not effect:
            problems.append(causes.required(f"{taint_field}.effect"))
        elif effect not in TAINT_EFFECTS:
            problems.append(causes.not_supported(f"{taint_field}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            problems.append(
                causes.duplicate(taint_field, taint, "taints must be unique by key and effect pair")
            )
        seen.add((key, effect))


def _check_resources(problems: list[Cause], status: Obj) -> None:
    for side in ("capacity", "allocatable"):
        for name, text in (status.get(side) or {}).items():
            check_amount(problems, name, parse(text), f"status.{side}.{name}")


def _check_addresses(problems: list[Cause], status: Obj) -> None:
    seen: set[bytes] = set()
    for index, address in enumerate(status.get("addresses") or ()):
        encoded = encode_sorted(address)
        if encoded in seen:
            problems.append(causes.duplicate(f"status.addresses[{index}]", address))
        seen.add(encoded)


def _check_cidrs(problems: list[Cause], cidrs: list[str]) -> None:
    for index, cidr in enumerate(cidrs):
        problems += causes.each(f"spec.podCIDRs[{index}]", cidr, formats.cidr(cidr))
    if len(cidrs) > 1 and sorted(formats.is_ipv6(cidr) for cidr in cidrs) != [False, True]:
        detail = "may specify no more than one CIDR for each IP family"
        problems.append(causes.invalid("spec.podCIDRs", cidrs, detail))
