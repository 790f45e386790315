"""Whether deleting an object removes it now, or marks it while something holds it. Pure.

requested ──> held by finalizers or a grace period? ──no──> removed
                    │ yes
                    └──> deletionTimestamp set; removed by the update that takes away the last hold
"""

from __future__ import annotations

import msgspec

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.model.errors import ApiError, Cause, bad_request, conflict, invalid
from fathom.model.objects import Obj, metadata, with_metadata
from fathom.model.times import SECOND_NS, timestamp

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
POLICIES = ("Foreground", "Background", "Orphan")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a DELETE. Other fields (apiVersion, kind) are ignored."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


class Removal(msgspec.Struct, frozen=True):
    """`obj` None: the object is removed now. Else: the object to store while the deletion is held."""

    obj: Obj | None


def check_options(options: DeleteOptions) -> None:
    causes = []
    if options.propagation_policy is not None and options.orphan_dependents is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(Cause("propagationPolicy", "FieldValueInvalid", f"Invalid value: {why}"))
    if options.propagation_policy is not None and options.propagation_policy not in POLICIES:
        supported = ", ".join(f'"{policy}"' for policy in (*POLICIES, "nil"))
        why = f'Unsupported value: "{options.propagation_policy}": supported values: {supported}'
        causes.append(Cause("propagationPolicy", "FieldValueNotSupported", why))
    for value in options.dry_run or ():
        if value != "All":
            why = f'Unsupported value: "{value}": supported values: "All"'
            causes.append(Cause("dryRun", "FieldValueNotSupported", why))
    if causes:
        raise invalid(group="meta.k8s.io", kind="DeleteOptions", name="", causes=causes)
    if options.grace_period_seconds is not None and options.grace_period_seconds < 0:
        raise bad_request("gracePeriodSeconds must be zero or more")


def check_preconditions(obj: Obj, options: DeleteOptions, *, resource: str, revision: int) -> None:
    wanted = options.preconditions
    if wanted is None:
        return
    meta = metadata(obj)
    if wanted.uid is not None and wanted.uid != meta.get("uid"):
        raise _precondition_failed(resource, meta, "UID", wanted.uid, str(meta.get("uid", "")))
    if wanted.resource_version is not None and wanted.resource_version != str(revision):
        raise _precondition_failed(resource, meta, "ResourceVersion", wanted.resource_version, str(revision))


def _precondition_failed(resource: str, meta: Obj, field: str, wanted: str, actual: str) -> ApiError:
    why = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {actual}"
    return conflict(resource, str(meta.get("name", "")), why)


def plan_removal(
    obj: Obj, options: DeleteOptions, *, rules: KindRules, moment: WriteMoment, now_ns: int
) -> Removal:
    finalizers = _finalizers(obj, options)
    grace_s = rules.grace_seconds(obj, options.grace_period_seconds)
    meta = metadata(obj)
    if meta.get("deletionTimestamp"):
        return _repeated_deletion(obj, finalizers, grace_s, rules=rules, now_ns=now_ns)
    marked = with_metadata(
        obj,
        finalizers=finalizers or None,
        deletionTimestamp=timestamp(now_ns + grace_s * SECOND_NS),
        deletionGracePeriodSeconds=grace_s,
        generation=meta["generation"] + 1 if meta.get("generation") else None,
    )
    if not rules.held(marked) and grace_s == 0:
        return Removal(obj=None)
    rules.prepare_delete(marked, moment)
    return Removal(obj=marked)


def _repeated_deletion(
    obj: Obj, finalizers: list[str], grace_s: int, *, rules: KindRules, now_ns: int
) -> Removal:
    """A repeated deletion may only shorten the grace period."""
    meta = metadata(obj)
    before_s = meta.get("deletionGracePeriodSeconds") or 0
    marked = with_metadata(obj, finalizers=finalizers or None)
    if grace_s < before_s:
        marked = with_metadata(
            marked,
            deletionTimestamp=timestamp(now_ns + grace_s * SECOND_NS),
            deletionGracePeriodSeconds=grace_s,
        )
    left_s = metadata(marked).get("deletionGracePeriodSeconds") or 0
    if not rules.held(marked) and left_s == 0:
        return Removal(obj=None)
    return Removal(obj=marked)


def _finalizers(obj: Obj, options: DeleteOptions) -> list[str]:
    """Dependents are orphaned, waited for, or left to the garbage collector, as the options say; else as the
    object's finalizers say."""
    present = list(metadata(obj).get("finalizers") or ())
    policy = options.propagation_policy
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        return present
    kept = [finalizer for finalizer in present if finalizer not in {FOREGROUND, ORPHAN}]
    added = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(policy, [])
    return kept + added


def is_over(obj: Obj, rules: KindRules) -> bool:
    """Whether an update has removed the last thing that held the deletion."""
    meta = metadata(obj)
    if not meta.get("deletionTimestamp") or rules.held(obj):
        return False
    return not meta.get("deletionGracePeriodSeconds")
