"""The limits in force, what of an override is beyond them, and which of its changes need approval."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fathom.kinds.override_changes import BREAK_GLASS, CHANGES, HIGH
from fathom.kinds.scheduler_override import BlastRadius, SchedulerOverride, changes_of, expiry_ns
from fathom.kinds.shape import read
from fathom.kinds.steering_limits import LIMITS_KEY, ON, STEERING_LIMITS, SteeringLimits, SteeringLimitsSpec
from fathom.model.errors import Cause
from fathom.model.times import duration_ns, moment_ns
from fathom.model.view import View

WHERE = f"SteeringLimits {LIMITS_KEY.namespace}/{LIMITS_KEY.name}"
BEYOND = "BeyondSteeringLimits"  # The reason of a cause.


def limits_in_force(view: View) -> SteeringLimitsSpec:
    seen = view.get(STEERING_LIMITS, LIMITS_KEY)
    if seen is None:
        return SteeringLimitsSpec()
    try:
        return read(SteeringLimits, seen.obj).spec
    except msgspec.ValidationError:  # Another version stored it. Defaults are safer than no limits.
        return SteeringLimitsSpec()


def beyond_limits(radius: BlastRadius, limits: SteeringLimitsSpec) -> list[Cause]:
    """What the override concerns beyond what it may."""
    counted = (
        ("pods", radius.pods, "maxPods", limits.max_pods),
        ("nodes", radius.nodes, "maxNodes", limits.max_nodes),
        ("% of a zone's nodes", radius.zone_percent, "maxZonePercent", limits.max_zone_percent),
        ("tenants", radius.tenants, "maxTenants", limits.max_tenants),
        ("workloads below their minimum", radius.below_minimum, "maxBelowMinimum", limits.max_below_minimum),
    )
    return [
        Cause("spec.target", BEYOND, f"it concerns {count} {what}, and {WHERE} allows {most} ({field})")
        for what, count, field, most in counted
        if most is not None and count > most
    ]


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
