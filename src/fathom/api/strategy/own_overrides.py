"""SchedulerOverrides, RepairProposals, TrafficRoutes: what people decide. Who and until when is stamped."""

from __future__ import annotations

from fathom.api.strategy.base import Moment, Strategy
from fathom.api.strategy.own_capacity import items, mapping, text
from fathom.api.strategy.own_policy import NO_DURATION
from fathom.model import causes
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.own.overrides import (
    CONTROL_CLASSES,
    EXPIRY_NS_MAX,
    INFRASTRUCTURE_TARGETS,
    SCOPES,
    TARGETS,
    named,
)
from fathom.model.own.progress import spec_hash, subject_fault
from fathom.model.own.times import duration_ns, moment_ns
from fathom.seams.outside import timestamp

SYSTEM = (
    SYSTEM_NAMESPACE  # Where overrides of infrastructure live: who may write there may touch all tenants.
)
STAMPED = ("author", "expiresAt")
DECISION = ("approved", "approver", "approvedAt", "approvedSpec")
DECIDED = ("maker", *DECISION)


class SchedulerOverrideStrategy(Strategy):
    def prepare_create(self, obj: Obj, moment: Moment) -> None:
        obj["status"] = {"author": moment.user.name, **_expiry(obj, moment), "active": False}

    def prepare_update(self, obj: Obj, old: Obj, moment: Moment) -> None:
        """Who changes how long it lasts counts from now. The author stays: the audit log has the others."""
        if lookup(obj, "spec", "expiresAfter") != lookup(old, "spec", "expiresAfter"):
            obj["status"] = {**mapping(obj.get("status")), **_expiry(obj, moment)}

    def prepare_status(self, obj: Obj, old: Obj, moment: Moment) -> None:
        obj["status"] = {**mapping(obj.get("status")), **_stamps(old, STAMPED)}

    def validate_create(self, obj: Obj) -> list[Cause]:
        spec = mapping(obj.get("spec"))
        found = [*_target_causes(text(spec.get("target")), text(metadata(obj).get("namespace")))]
        if text(spec.get("scope")):
            found += _place_causes(spec["scope"], "spec.scope", SCOPES)
        changes = mapping(spec.get("changes"))
        found += _change_causes(changes)
        found += _expiry_causes(text(spec.get("expiresAfter")), changes)
        return found

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        found = self.validate_create(obj)
        before = lookup(old, "spec", "target")
        return found + causes.unchanged("spec.target", lookup(obj, "spec", "target"), before)


def _expiry(obj: Obj, moment: Moment) -> Obj:
    lasts_ns = duration_ns(text(lookup(obj, "spec", "expiresAfter")))
    now_ns = moment_ns(moment.now)
    if lasts_ns is None or now_ns is None:
        return {}
    return {"expiresAt": timestamp(now_ns + lasts_ns)}


def _stamps(old: Obj, fields: tuple[str, ...]) -> Obj:
    before = mapping(old.get("status"))
    return {field: before[field] for field in fields if field in before}


def _target_causes(target: str, namespace: str) -> list[Cause]:
    found = _place_causes(target, "spec.target", TARGETS) if target else []
    place = named(target)
    if place is not None and place.kind in INFRASTRUCTURE_TARGETS and namespace != SYSTEM:
        why = f"overrides of infrastructure ({place.kind}) are made in the namespace {SYSTEM}"
        found.append(causes.forbidden("spec.target", why))
    return found


def _place_causes(value: str, field: str, kinds: tuple[str, ...]) -> list[Cause]:
    place = named(value)
    if place is None:
        return [causes.invalid(field, value, f"must be of the form {kinds[0]}/NAME")]
    return [] if place.kind in kinds else [causes.not_supported(field, place.kind, kinds)]


def _change_causes(changes: Obj) -> list[Cause]:
    found: list[Cause] = Causes()
    if not changes:
        found.append(causes.required("spec.changes", "an override that changes nothing is none"))
    for name in changes:
        if name not in CONTROL_CLASSES:
            found.append(causes.not_supported("spec.changes", name, tuple(CONTROL_CLASSES)))
    if "reservedReplicas" in changes and not changes.get("allowReservedCapacityClass"):
        why = "must be set together with reservedReplicas"
        found.append(causes.required("spec.changes.allowReservedCapacityClass", why))
    return found


def _expiry_causes(expires_after: str, changes: Obj) -> list[Cause]:
    field = "spec.expiresAfter"
    if not expires_after:
        return []
    lasts_ns = duration_ns(expires_after)
    if lasts_ns is None or lasts_ns <= 0:
        return [causes.invalid(field, expires_after, NO_DURATION)]
    classes = sorted({CONTROL_CLASSES[name] for name in changes if name in CONTROL_CLASSES})
    for control in classes:
        most_ns = EXPIRY_NS_MAX[control]
        if lasts_ns > most_ns:
            hours = most_ns // (3600 * 1_000_000_000)
            why = f"a {control} override lasts at most {hours}h"
            return [causes.invalid(field, expires_after, why)]
    return []


class RepairProposalStrategy(Strategy):
    """Made whole, never changed, decided through the approval subresource. Who made it and who decided what
    are the server's words."""

    def prepare_create(self, obj: Obj, moment: Moment) -> None:
        obj["status"] = {"phase": "Proposed", "maker": moment.user.name}

    def prepare_status(self, obj: Obj, old: Obj, moment: Moment) -> None:
        reported = {name: value for name, value in mapping(obj.get("status")).items() if name not in DECIDED}
        obj["status"] = {**reported, **_stamps(old, DECIDED)}

    def prepare_approval(self, obj: Obj, old: Obj, moment: Moment) -> None:
        """Of all that is sent, `approved` alone is the caller's. To say the same again changes nothing."""
        approved, before = lookup(obj, "status", "approved"), mapping(old.get("status"))
        if approved == before.get("approved") and moment.user.name == before.get("approver"):
            obj["status"] = {**before}
            return
        kept = {name: value for name, value in before.items() if name not in DECISION}
        obj["status"] = {**kept, **(_decision(approved, old, moment) if approved is not None else {})}

    def validate_create(self, obj: Obj) -> list[Cause]:
        fault = subject_fault(obj)
        return [causes.forbidden("spec.subject.namespace", fault)] if fault else []

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        """What is approved is what was proposed."""
        return causes.unchanged("spec", obj.get("spec"), old.get("spec"))


def _decision(approved: object, old: Obj, moment: Moment) -> Obj:
    return {
        "approved": approved,
        "approver": moment.user.name,
        "approvedAt": moment.now,
        "approvedSpec": spec_hash(old),
    }


class TrafficRouteStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        spec = mapping(obj.get("spec"))
        found: list[Cause] = Causes()
        if bool(spec.get("service")) == bool(spec.get("workload")):
            found.append(causes.required("spec.service", "exactly one of service and workload must be set"))
        for index, route in enumerate(items(spec.get("routes"))):
            places = [name for name in ("region", "zone", "pool") if mapping(route).get(name)]
            if len(places) != 1:
                why = "must name exactly one of region, zone and pool"
                found.append(causes.invalid(f"spec.routes[{index}]", places, why))
        found += _repeated(spec)
        weights = [mapping(route).get("weight") for route in items(spec.get("routes"))]
        if weights and not any(isinstance(weight, int) and weight > 0 for weight in weights):
            found.append(causes.invalid("spec.routes", weights, "at least one weight must be above 0"))
        return found


def _repeated(spec: Obj) -> list[Cause]:
    """Of two shares for one place nobody could say which is meant."""
    seen: set[tuple[str, object]] = set()
    found = []
    for index, route in enumerate(items(spec.get("routes"))):
        for by in ("region", "zone", "pool"):
            place = mapping(route).get(by)
            if place and (by, place) in seen:
                found.append(causes.duplicate(f"spec.routes[{index}].{by}", place))
            seen.add((by, place))
    return found
