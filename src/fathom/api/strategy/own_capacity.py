"""TenantQuotas, CapacityClasses and Reservations.

The schema has judged types and presence by the time the causes here are looked at, but both are collected: a
value of a wrong type is passed over here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fathom.api.strategy.base import Strategy
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.quantity import ZERO, parse

_PLACE = ("zone", "capacityClass")


def mapping(value: Any) -> Obj:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def amount_causes(amounts: Any, field: str) -> Iterator[Cause]:
    for name, value in mapping(amounts).items():
        where = f"{field}[{name}]"
        for why in formats.qualified_name(name):
            yield causes.invalid(where, name, why)
        try:
            amount = parse(value)
        except ValueError as error:
            yield causes.invalid(where, value, str(error))
            continue
        if amount < ZERO:
            yield causes.invalid(where, value, causes.MUST_NOT_BE_NEGATIVE)


class TenantQuotaStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        found: list[Cause] = Causes()
        seen: list[Obj] = []
        for index, limit in enumerate(items(lookup(obj, "spec", "limits"))):
            field = f"spec.limits[{index}]"
            place = {name: one for name, one in mapping(limit).items() if name in _PLACE}
            if place in seen:
                found.append(causes.duplicate(field, place))
            seen.append(place)
            found += amount_causes(mapping(limit).get("resources"), f"{field}.resources")
        if reasons := formats.label_value(metadata(obj).get("name", "")):
            # The tenant is a label's value, so no namespace could ever name a quota of another form.
            found += causes.each("metadata.name", metadata(obj).get("name"), reasons)
        return found


class CapacityClassStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        found: list[Cause] = Causes()
        spec = mapping(obj.get("spec"))
        if "nodeSelector" in spec and not spec["nodeSelector"]:
            found.append(causes.required("spec.nodeSelector", "a pool needs at least one label"))
        for name, value in mapping(spec.get("nodeSelector")).items():
            found += causes.each("spec.nodeSelector", name, formats.qualified_name(name))
            found += causes.each(f"spec.nodeSelector[{name}]", value, formats.label_value(text(value)))
        found += amount_causes(spec.get("resources"), "spec.resources")
        return found


class ReservationStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        return list(amount_causes(lookup(obj, "spec", "resources"), "spec.resources"))

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        """What it is for names it, and what it holds is charged: a change of either makes another one."""
        found = self.validate_create(obj)
        for field in ("workload", "slot", "intent", "resources", "capacityClass", "awaits"):
            before = lookup(old, "spec", field)
            found += causes.unchanged(f"spec.{field}", lookup(obj, "spec", field), before)
        before = lookup(old, "spec", "nodeName")
        if before:  # The node may be found later; then it stays.
            found += causes.unchanged("spec.nodeName", lookup(obj, "spec", "nodeName"), before)
        return found
