"""How an override relates to those that are active about the same target, change by change.

    identical      both say the same                     accepted, with a warning
    merged         both hold, and more is changed        accepted, with a warning
    shadowed       the other one says as much or more    accepted, with a warning
    contradictory  only one of them can hold             refused, naming the other

The column `merge` of the table of changes decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from fathom.kinds.override_changes import ALL_HOLD, CHANGES, EXCLUSIVE, LARGEST, Named, named
from fathom.kinds.scheduler_override import SchedulerOverride, changes_of, scope_includes
from fathom.model.objects import Obj

IDENTICAL, MERGED, SHADOWED, CONTRADICTORY = "identical", "merged", "shadowed", "contradictory"


class Relation(msgspec.Struct, frozen=True):
    """How one change of an override relates to the same change of another override."""

    change: str
    relation: str
    other: SchedulerOverride


# (namespace, ReplicaSet) -> the Deployment that it is a part of.
Deployments = Mapping[tuple[str, str], str]


def relations(
    override: SchedulerOverride,
    others: Iterable[SchedulerOverride],
    nodes: Iterable[Mapping[str, str]],
    deployments: Deployments = MappingProxyType({}),
) -> list[Relation]:
    """To every other override with the same target and a common place. `nodes`: the labels of each."""
    labels = tuple(nodes)
    return [
        Relation(change, _relation(change, override, other), other)
        for other in others
        if _same_target(override, other, deployments)
        and _common_place(override.spec.scope, other.spec.scope, labels)
        for change in changes_of(override)
        if _is_about_same(change, override, other)
    ]


def _same_target(override: SchedulerOverride, other: SchedulerOverride, deployments: Deployments) -> bool:
    """The same, or one is a part of the other. Two parts of one Deployment have no pod in common."""
    if (
        override.metadata.namespace != other.metadata.namespace
        or override.metadata.name == other.metadata.name
    ):
        return False
    first, second = named(override.spec.target), named(other.spec.target)
    if first is None or second is None:
        return False
    whole_of_first, whole_of_second = (
        _whole(each, override.metadata.namespace, deployments) for each in (first, second)
    )
    return _is_same(first, second) or _is_same(whole_of_first, second) or _is_same(first, whole_of_second)


def _whole(target: Named, namespace: str, deployments: Deployments) -> Named:
    """The Deployment that a ReplicaSet is a part of; itself otherwise."""
    may_be_part = target.kind in {"replicaset", "workload"}
    deployment = deployments.get((namespace, target.name)) if may_be_part else None
    return target if deployment is None else Named("deployment", deployment)


def _is_same(first: Named, second: Named) -> bool:
    return first.name == second.name and _same_kind(first, second)


def _same_kind(target: Named, other_target: Named) -> bool:
    """`workload/x` may be any kind of workload."""
    return target.kind == other_target.kind or (
        "workload" in {target.kind, other_target.kind}
        and not {target.kind, other_target.kind} & {"node", "zone", "pool"}
    )


def _common_place(scope: str, other: str, nodes: tuple[Mapping[str, str], ...]) -> bool:
    """Whether a node is in both scopes. Equal scopes have a common place also while no node is there."""
    if scope == other or scope_includes(scope, {}) or scope_includes(other, {}):
        return True
    return any(scope_includes(scope, labels) and scope_includes(other, labels) for labels in nodes)


def _is_about_same(change: str, override: SchedulerOverride, other: SchedulerOverride) -> bool:
    """Break-glass is for the author alone, so those of two people have nothing to do with each other."""
    if change == "breakGlassRole" and override.status.author != other.status.author:
        return False
    return change in changes_of(other)


def _relation(change: str, override: SchedulerOverride, other: SchedulerOverride) -> str:
    mine, theirs, merge = _value(change, override), _value(change, other), CHANGES[change].merge
    if mine == theirs:
        return IDENTICAL
    if merge == EXCLUSIVE:
        return CONTRADICTORY
    if merge == LARGEST:
        return SHADOWED if mine < theirs else MERGED
    if merge == ALL_HOLD:
        return MERGED
    return SHADOWED if _pairs(mine) <= _pairs(theirs) else MERGED


def _value(change: str, override: SchedulerOverride) -> Any:
    """A class and the number of pods that may use it are one grant."""
    changes: Obj = msgspec.to_builtins(override.spec.changes)
    if change in {"allowReservedCapacityClass", "reservedReplicas"}:
        return changes.get("allowReservedCapacityClass"), changes.get("reservedReplicas")
    value = changes.get(change)
    return sorted(value) if isinstance(value, list | tuple) else value


def _pairs(value: Any) -> set[tuple[str, str]]:
    """What is united: the values of a list, or the (label, value) pairs of a map."""
    if isinstance(value, dict):
        return {(label, each) for label, values in value.items() for each in values}
    return {("", each) for each in value}
