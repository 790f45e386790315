"""Names in the spec of a SchedulerOverride: one that nothing can ever have is refused, since it would never
match. (A name that nothing has yet is accepted, and warned of.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fathom.kinds.override_changes import WORKLOAD_TARGETS, Named
from fathom.kinds.values import items, mapping, text
from fathom.model import causes
from fathom.model.errors import Cause
from fathom.model.formats import dns_subdomain, label_value, path_segment, qualified_name
from fathom.model.objects import Obj

Format = Callable[[str], list[str]]  # Why a value does not have the format; empty: it has.


def _node(value: str) -> list[str]:
    """Nodes are known by their name and by their hostname label."""
    return label_value(value) and dns_subdomain(value)


# By the change: the format of its value, or of each value in its list.
_FORMATS: dict[str, Format] = {
    "avoidZones": label_value,
    "avoidNodes": _node,
    "avoidNodeClasses": label_value,
    "avoidPools": label_value,
    "allowReservedCapacityClass": dns_subdomain,
    "approveRepairs": dns_subdomain,
    "breakGlassRole": path_segment,
}


def place_name_causes(place: Named, field: str) -> Iterator[Cause]:
    """Of a target or scope: the part after the slash."""
    by_kind: dict[str, Format] = {"node": _node, **dict.fromkeys(WORKLOAD_TARGETS, dns_subdomain)}
    for why in by_kind.get(place.kind, label_value)(place.name)[:1]:
        yield causes.invalid(field, f"{place.kind}/{place.name}", why)


def change_name_causes(changes: Obj) -> Iterator[Cause]:
    for change, is_format in _FORMATS.items():
        value, field = changes.get(change), f"spec.changes.{change}"
        if text(value):
            yield from _causes(field, text(value), is_format)
        yield from _list_causes(field, value, is_format)
    for label, values in mapping(changes.get("avoidTopology")).items():
        yield from _causes("spec.changes.avoidTopology", label, qualified_name)
        yield from _list_causes(f"spec.changes.avoidTopology.{label}", values, label_value)
    for place in mapping(changes.get("trafficWeights")):
        yield from _causes("spec.changes.trafficWeights", place, _place)


def _place(value: str) -> list[str]:
    return label_value(value) if value else ["must name a region or pool"]


def _list_causes(field: str, values: object, is_format: Format) -> Iterator[Cause]:
    for index, value in enumerate(items(values)):
        yield from _causes(f"{field}[{index}]", text(value), is_format)


def _causes(field: str, value: str, is_format: Format) -> Iterator[Cause]:
    return (causes.invalid(field, value, why) for why in is_format(value)[:1])
