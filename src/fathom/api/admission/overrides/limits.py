"""The limits in force, what of an override is beyond them, and which of its changes need approval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from fathom.api.admission.overrides.blast_radius import Reach, Reaches, together
from fathom.kinds.override_changes import BREAK_GLASS, CHANGES, HIGH
from fathom.kinds.scheduler_override import BlastRadius, SchedulerOverride, changes_of, expiry_ns
from fathom.kinds.shape import read
from fathom.kinds.steering_limits import LIMITS_KEY, ON, STEERING_LIMITS, SteeringLimits, SteeringLimitsSpec
from fathom.model.errors import Cause
from fathom.model.objects import Key
from fathom.model.times import duration_ns, moment_ns
from fathom.model.view import View

WHERE = f"SteeringLimits {LIMITS_KEY.namespace}/{LIMITS_KEY.name}"
BEYOND = "BeyondSteeringLimits"  # The reason of a cause.
NAMED_MAX = 3  # Other overrides in a message.


def limits_in_force(view: View) -> SteeringLimitsSpec:
    seen = view.get(STEERING_LIMITS, LIMITS_KEY)
    if seen is None:
        return SteeringLimitsSpec()
    try:
        return read(SteeringLimits, seen.obj).spec
    except msgspec.ValidationError:  # Another version stored it. Defaults are safer than no limits.
        return SteeringLimitsSpec()


class _Limit(NamedTuple):
    counted: str  # The field of BlastRadius.
    what: str
    field: str  # Of SteeringLimits.
    most: int | None


def _limits(limits: SteeringLimitsSpec) -> tuple[_Limit, ...]:
    return (
        _Limit("pods", "pods", "maxPods", limits.max_pods),
        _Limit("nodes", "nodes", "maxNodes", limits.max_nodes),
        _Limit("zone_percent", "% of a zone's nodes", "maxZonePercent", limits.max_zone_percent),
        _Limit("tenants", "tenants", "maxTenants", limits.max_tenants),
        _Limit("below_minimum", "workloads below their minimum", "maxBelowMinimum", limits.max_below_minimum),
    )


def beyond_limits(radius: BlastRadius, limits: SteeringLimitsSpec) -> list[Cause]:
    """What the override concerns beyond what it may."""
    return [_cause("", radius, limit) for limit in _limits(limits) if _is_beyond(radius, limit)]


def _is_beyond(radius: BlastRadius, limit: _Limit) -> bool:
    return limit.most is not None and getattr(radius, limit.counted) > limit.most


def _cause(together: str, radius: BlastRadius, limit: _Limit) -> Cause:
    concerns = f"{together}it concerns {getattr(radius, limit.counted)} {limit.what}"
    return Cause("spec.target", BEYOND, f"{concerns}, and {WHERE} allows {limit.most} ({limit.field})")


def beyond_limits_together(
    override: SchedulerOverride,
    in_force: Iterable[SchedulerOverride],
    limits: SteeringLimitsSpec,
    view: View,
) -> list[Cause]:
    """What the override, which alone is within the limits, concerns beyond them together with others that are
    in force and have the same effect. What several concern counts once, and an override that adds nothing to
    what others concern is not refused."""
    reaches, effects = Reaches(view), _effects(override)
    others = [other for other in in_force if _effects(other) & effects and _key(other) != _key(override)]
    mine = reaches.of(override) if others else Reach()
    own, theirs = reaches.radius(mine), [(other, reaches.of(other)) for other in others]
    causes: dict[str, Cause] = {}  # By the limit's field.
    for effect in sorted(effects):
        sharing = [(other, reach) for other, reach in theirs if effect in _effects(other)]
        before = together([reach for _, reach in sharing])
        radius, without = reaches.radius(together((before, mine))), reaches.radius(before)
        for limit in _limits(limits):
            adds = getattr(radius, limit.counted) > getattr(without, limit.counted)
            if _is_beyond(radius, limit) and adds and not _is_beyond(own, limit):
                causes.setdefault(
                    limit.field, _cause(_together(_key(override).namespace, sharing), radius, limit)
                )
    return list(causes.values())


def _effects(override: SchedulerOverride) -> set[str]:
    """The control classes of its changes: a pause adds up with pauses, a drain with cordons and drains."""
    return {CHANGES[change].control_class.name for change in changes_of(override)}


def _key(override: SchedulerOverride) -> Key:
    return override.metadata.key


def _together(namespace: str, others: Sequence[tuple[SchedulerOverride, Reach]]) -> str:
    """Those that concern something, by name; those of other namespaces, which its author may not read, only
    as a number."""
    concerned = [other for other, reach in others if reach.nodes or reach.pods]
    names = ["/".join(_key(other)) for other in concerned if _key(other).namespace == namespace][:NAMED_MAX]
    more = len(concerned) - len(names)
    shown = [f"the active override{'s' if len(names) > 1 else ''} {' and '.join(names)}"] if names else []
    if more:
        shown.append(f"{more} other active override{'s' if more > 1 else ''}")
    return f"together with {' and '.join(shown)} "


def beyond_extensions(override: SchedulerOverride, limits: SteeringLimitsSpec) -> Iterator[Cause]:
    """Whether the override was extended too often, or would last too long in all."""
    extensions, most = override.status.extensions, limits.max_extensions
    if extensions > most:
        why = f"it would be extension {extensions}, and {WHERE} allows {most} (maxExtensions)"
        yield Cause("spec.expiresAfter", BEYOND, why)
    created, ends = moment_ns(override.metadata.creation_timestamp), expiry_ns(override)
    longest = duration_ns(limits.max_total_duration)
    if created is not None and ends is not None and longest is not None and ends - created > longest:
        why = (
            f"it would last longer in all than {WHERE} allows ({limits.max_total_duration}, maxTotalDuration)"
        )
        yield Cause("spec.expiresAfter", BEYOND, why)


def changes_to_approve(
    override: SchedulerOverride, radius: BlastRadius, limits: SteeringLimitsSpec
) -> tuple[str, ...]:
    """The changes for which a second person must approve. Break-glass never waits: it is reviewed later."""
    if limits.approvals != ON:
        return ()
    return tuple(name for name in changes_of(override) if _is_risky(name, override, radius, limits))


def _is_risky(
    name: str, override: SchedulerOverride, radius: BlastRadius, limits: SteeringLimitsSpec
) -> bool:
    rule = CHANGES[name]
    if name == "allowReservedCapacityClass":
        wanted = override.spec.changes.reserved_replicas
        replicas = radius.pods if wanted is None else wanted  # Absent: all pods of the target.
        return replicas > limits.reserved_replicas_without_approval
    return rule.risk == HIGH and rule.control_class != BREAK_GLASS
