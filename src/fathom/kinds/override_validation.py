"""What the spec of a SchedulerOverride may say, as far as no other object is needed to judge it."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.kinds.approval import through_causes
from fathom.kinds.override_changes import (
    CHANGES,
    EVERYWHERE,
    HOUR_NS,
    INFRASTRUCTURE_TARGETS,
    SCOPES,
    TARGETS,
    effective_changes,
    named,
)
from fathom.kinds.override_names import change_name_causes, place_name_causes
from fathom.kinds.values import NO_DURATION, is_blank, mapping, text, visible
from fathom.model import causes
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, metadata
from fathom.model.times import duration_ns

SCOPE_NEEDED = f"must say where the override applies, such as region/eu-west, or {EVERYWHERE}: everywhere"
NEW_REASON_NEEDED = "must change together with expiresAfter: an extension needs a reason of its own"
LONE_BREAK_GLASS = "must be the only change: its use is reviewed, that of others is approved"
PLACELESS_BREAK_GLASS = f"must be {EVERYWHERE}: the permissions of breakGlassRole do not depend on a place"
# What no program asks for in somebody's name: a decision that is a person's own, and what waits for nobody.
BY_PEOPLE = (
    ("approveRepairs", "a person approves repairs, and no program in their name: leave out requestedThrough"),
    ("breakGlassRole", "break-glass waits for no approval, and what has requestedThrough always does"),
)
FIXED_BREAK_GLASS = "an override with breakGlassRole cannot be changed: end it and create another"


def validate(obj: Obj) -> list[Cause]:
    """At creation."""
    spec = mapping(obj.get("spec"))
    missing = [] if text(spec.get("scope")) else [causes.required("spec.scope", SCOPE_NEEDED)]
    return [*missing, *through_causes(spec), *_spec_causes(obj, spec)]


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    """A spec that stays the same is not judged: whoever removes a finalizer, or adds a label, is not refused
    for what an earlier version has accepted."""
    spec, before = mapping(obj.get("spec")), mapping(old.get("spec"))
    if spec == before:
        return []
    errors = causes.unchanged("spec.target", spec.get("target"), before.get("target"))
    errors += through_causes(spec, before)
    if text(before.get("scope")) and not text(spec.get("scope")):
        errors.append(causes.required("spec.scope", SCOPE_NEEDED))
    is_new = visible(text(spec.get("reason"))) != visible(text(before.get("reason")))
    if spec.get("expiresAfter") != before.get("expiresAfter") and not is_new:
        errors.append(causes.invalid("spec.reason", spec.get("reason"), NEW_REASON_NEEDED))
    roles = (mapping(each.get("changes")).get("breakGlassRole") for each in (spec, before))
    if any(roles):
        errors.append(causes.forbidden("spec.changes.breakGlassRole", FIXED_BREAK_GLASS))
    return [*errors, *_spec_causes(obj, spec)]


def _spec_causes(obj: Obj, spec: Obj) -> list[Cause]:
    target, changes = text(spec.get("target")), mapping(spec.get("changes"))
    errors: list[Cause] = Causes()
    errors += _target_causes(target, text(metadata(obj).get("namespace")))
    if not errors:
        errors += _misplaced_causes(target, changes)
    if text(spec.get("scope")) not in {"", EVERYWHERE}:
        errors += _place_causes(spec["scope"], "spec.scope", SCOPES)
        if changes.get("breakGlassRole"):
            errors.append(causes.invalid("spec.scope", spec["scope"], PLACELESS_BREAK_GLASS))
    if is_blank(text(spec.get("reason"))):
        errors.append(causes.required("spec.reason", "must say why the override is needed"))
    errors += _change_causes(changes)
    if text(spec.get("requestedThrough")):
        errors += [
            causes.forbidden(f"spec.changes.{name}", why) for name, why in BY_PEOPLE if changes.get(name)
        ]
    errors += change_name_causes(changes)
    errors += _expiry_causes(text(spec.get("expiresAfter")), changes)
    return errors


def _target_causes(target: str, namespace: str) -> list[Cause]:
    errors = _place_causes(target, "spec.target", TARGETS) if target else []
    place = named(target)
    if place is not None and place.kind in INFRASTRUCTURE_TARGETS and namespace != SYSTEM_NAMESPACE:
        why = f"an override of infrastructure ({place.kind}) must be in the namespace {SYSTEM_NAMESPACE}"
        errors.append(causes.forbidden("spec.target", why))
    return errors


def _place_causes(value: str, field: str, kinds: tuple[str, ...]) -> list[Cause]:
    place = named(value)
    if place is None:
        return [causes.invalid(field, value, f"must be of the form {kinds[0]}/NAME")]
    if place.kind not in kinds:
        return [causes.not_supported(field, place.kind, kinds)]
    return list(place_name_causes(place, field))


def _misplaced_causes(target: str, changes: Obj) -> Iterator[Cause]:
    place = named(target)
    for name in effective_changes(changes):
        targets = CHANGES[name].control_class.targets
        if place is not None and place.kind not in targets:
            why = f"needs a target of {', '.join(targets)}, and this override is about a {place.kind}"
            yield causes.forbidden(f"spec.changes.{name}", why)


def _change_causes(changes: Obj) -> Iterator[Cause]:
    unknown = [name for name in changes if name not in CHANGES]
    for name in unknown:
        yield causes.not_supported("spec.changes", name, tuple(CHANGES))
    if not unknown and not effective_changes(changes):
        yield causes.required("spec.changes", "an override must change something")
    if changes.get("reservedReplicas") is not None and not changes.get("allowReservedCapacityClass"):
        why = "must be set together with reservedReplicas"
        yield causes.required("spec.changes.allowReservedCapacityClass", why)
    if changes.get("breakGlassRole") and len(effective_changes(changes)) > 1:
        yield causes.forbidden("spec.changes.breakGlassRole", LONE_BREAK_GLASS)
    weights = mapping(changes.get("trafficWeights"))
    if weights and not any(weights.values()):
        yield causes.invalid("spec.changes.trafficWeights", weights, "one weight at least must be above 0")


def _expiry_causes(expires_after: str, changes: Obj) -> list[Cause]:
    field = "spec.expiresAfter"
    if not expires_after:
        return []  # The schema requires it.
    lasts_ns = duration_ns(expires_after)
    if lasts_ns is None or lasts_ns <= 0:
        return [causes.invalid(field, expires_after, NO_DURATION)]
    for name in effective_changes(changes):
        if lasts_ns > CHANGES[name].lasts_ns_max:
            why = f"{name} may last at most {CHANGES[name].lasts_ns_max // HOUR_NS}h"
            return [causes.invalid(field, expires_after, why)]
    return []
