"""SchedulerOverrides: who may write which change, and how far overrides may reach.

A write that leaves the spec as it is passes: controllers report, finalizers come off. Two overrides that
contradict each other are not both stored: the commits of both write the key of `PlacementRules`, so the later
one is judged again, and then sees the earlier one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec

from fathom.api.admission.approvers import APPROVAL, check_approver, is_person
from fathom.api.admission.attempt import CREATE, UPDATE, Charge, WriteAttempt, refused
from fathom.api.admission.overrides import conflicts
from fathom.api.admission.overrides.blast_radius import blast_radius, node_labels
from fathom.api.admission.overrides.finalizer import check_finalizers
from fathom.api.admission.overrides.limits import (
    beyond_extensions,
    beyond_limits,
    beyond_limits_together,
    changes_to_approve,
    limits_in_force,
)
from fathom.api.admission.overrides.references import ambiguity, deployments_behind, names_of_nothing
from fathom.api.admission.overrides.unreviewed import check_reviewed
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.break_glass import is_marked
from fathom.api.auth.rbac import CLUSTER_ROLES
from fathom.api.request import RequestTarget
from fathom.kinds.definition import Stamp
from fathom.kinds.override_changes import CHANGES
from fathom.kinds.override_review import OVERRIDE_REVIEWS, review_of
from fathom.kinds.override_stamps import hash_of, status_awaiting_approval, status_without_approval
from fathom.kinds.override_status import has_ended
from fathom.kinds.override_summary import proof_of
from fathom.kinds.scheduler_override import (
    DEFINITION,
    OVERRIDES,
    BlastRadius,
    SchedulerOverride,
    changes_of,
    override_active,
)
from fathom.kinds.shape import GROUP, VERSION, read
from fathom.model.body import Body
from fathom.model.causes import quoted
from fathom.model.declared import Reads, Writes
from fathom.model.errors import ApiError, Cause, conflict, invalid
from fathom.model.objects import Key, Obj, lookup
from fathom.model.times import timestamp
from fathom.model.view import View
from fathom.seams.outside import Clock
from fathom.store.protocol import Expect, Put

STATUS = "status"
REVIEW_NAME_CHARS_MAX = 240  # With a dash and eight digits of the UID, within the 253 of a name.


class SchedulerOverrides(Plugin):
    name = "SchedulerOverrides"
    resources = frozenset({OVERRIDES})
    operations = frozenset({CREATE, UPDATE})
    subresources = frozenset({"", APPROVAL, STATUS})
    trusted = True
    reads = (
        Reads("SchedulerOverride"),
        Reads("SteeringLimits", ("spec",)),
        Reads("Node", ("metadata.labels",)),
        Reads("Pod", ("metadata", "spec.nodeName", "status")),
        Reads("Namespace", ("metadata.labels",)),
        Reads("PodDisruptionBudget"),
        Reads("CapacityClass", ("metadata",)),
        Reads("ClusterRole", ("metadata",)),
        Reads("Deployment", ("metadata",)),
        Reads("Job", ("metadata",)),
        Reads("ReplicaSet", ("metadata",)),
        Reads("RepairProposal", ("metadata",)),
        Reads("OverrideReview"),
        Reads("Lease", ("spec",)),
    )
    writes = (
        Writes("SchedulerOverride", ("status",)),
        Writes("OverrideReview", ("*",), creates=True),
    )

    def __init__(self, authorizer: Authorizer, clock: Clock) -> None:
        self._authorizer = authorizer
        self._clock = clock

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        """Stamp what the override concerns, and whether it waits for approval."""
        obj, old = attempt.obj, attempt.old or {}
        assert obj is not None
        if not _changes_spec(attempt) and not _approves(attempt):
            return obj
        override, limits, status = read(SchedulerOverride, obj), limits_in_force(view), obj["status"]
        radius = blast_radius(override, view)
        if _changes_spec(attempt):
            stamp = Stamp(attempt.user.name, timestamp(self._clock.now_ns()), attempt.user.impersonator)
            if override.spec.requested_through or changes_to_approve(override, radius, limits):
                status = status_awaiting_approval(obj, old, stamp)
            else:
                status = status_without_approval(obj, stamp)
        return {**obj, "status": {**status, "blastRadius": msgspec.to_builtins(radius)}}

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if attempt.subresource == APPROVAL or _changes_spec(attempt):
            # So that the audit log alone shows what was written, and what was approved.
            attempt.note("spec-hash", hash_of(attempt.obj or {}))
        if attempt.subresource == APPROVAL:
            self._check_approval(attempt, view)
            return
        if attempt.subresource == STATUS:
            self._check_end(attempt)
            return
        check_finalizers(attempt, view, now_ns=self._clock.now_ns())
        if _changes_spec(attempt):
            self._check_spec(attempt, view)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        """The review of a use of break-glass is stored with it: there is never one without the other."""
        obj = attempt.obj
        if attempt.operation != CREATE or not lookup(obj, "spec", "changes", "breakGlassRole"):
            return ()
        assert obj is not None
        override_uid = str(obj["metadata"]["uid"])
        name = f"{attempt.name[:REVIEW_NAME_CHARS_MAX]}-{override_uid[:8]}"
        uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{OVERRIDE_REVIEWS}/{override_uid}"))
        review = review_of(obj, name=name, uid=uid, created=timestamp(self._clock.now_ns()))
        key = f"/registry/{OVERRIDE_REVIEWS}/{attempt.namespace}/{name}"
        return (Charge((Expect(key, 0),), (Put(key, Body(review)),)),)

    def _check_spec(self, attempt: WriteAttempt, view: View) -> None:
        assert attempt.obj is not None
        override = read(SchedulerOverride, attempt.obj)
        self._check_not_over(attempt)
        self._check_verbs(attempt, override)
        if override.spec.changes.approve_repairs and not is_person(attempt.user):
            raise refused(attempt, f"{attempt.user.name} may not approve repairs: only a person may")
        if override.spec.changes.break_glass_role:
            _check_break_glass(attempt, override, view)
            if attempt.operation == CREATE:
                check_reviewed(attempt, view, now_ns=self._clock.now_ns())
        if attempt.operation == CREATE and (causes := ambiguity(override, view)):
            raise invalid(group=GROUP, kind=attempt.kind.kind, name=attempt.name, causes=causes)
        self._check_reach(attempt, override, view)
        for warning in names_of_nothing(override, node_labels(view), view):
            attempt.warn(warning)

    def _check_not_over(self, attempt: WriteAttempt) -> None:
        """What has ended stays ended: its effects may be undone already."""
        if attempt.old is None:
            return
        if has_ended(read(SchedulerOverride, attempt.old), self._clock.now_ns()):
            raise refused(attempt, "the override has ended: create another")

    def _check_end(self, attempt: WriteAttempt) -> None:
        """1. A controller's clock is ahead: to it the override is over, and nothing of it is left. 2. It says
        so. 3. The override goes on acting. So its end is the one that servers enforce, by their clocks."""
        override = read(SchedulerOverride, attempt.obj or {})
        if proof_of(override) is not None and not has_ended(override, self._clock.now_ns()):
            raise conflict(OVERRIDES, attempt.name, "the override has not ended by the API server's clock")

    def _check_verbs(self, attempt: WriteAttempt, override: SchedulerOverride) -> None:
        """Rights that break-glass gives do not count: it must not open the way to more overrides."""
        for change in changes_of(override):
            verb = CHANGES[change].verb
            target = RequestTarget(
                verb=verb, path="", group=GROUP, version=VERSION, plural=DEFINITION.plural,
                namespace=attempt.namespace, name=attempt.name,
            )  # fmt: skip
            if not self._authorizer.by_roles(attempt.user, target).allowed:
                why = f"{attempt.user.name} needs the verb {quoted(verb)} on {OVERRIDES} for {change}"
                raise refused(attempt, why, (Cause(f"spec.changes.{change}", "FieldValueForbidden", why),))

    def _check_reach(self, attempt: WriteAttempt, override: SchedulerOverride, view: View) -> None:
        """Limits and contradictions: at every new spec, and again when it is approved. `mutate` has just
        counted the blast radius."""
        limits, radius = limits_in_force(view), override.status.blast_radius or BlastRadius()
        in_force = self._in_force(view)
        causes = [
            *beyond_limits(radius, limits),
            *beyond_limits_together(override, in_force, limits, view),
            *beyond_extensions(override, limits),
        ]
        if causes:
            raise refused(attempt, "; ".join(cause.message for cause in causes), causes)
        behind = deployments_behind((override, *in_force), view)
        for relation in conflicts.relations(override, in_force, node_labels(view).values(), behind):
            other = quoted(relation.other.metadata.name)
            if relation.relation == conflicts.CONTRADICTORY:
                raise _contradiction(attempt, relation)
            how = f"{relation.relation} with the active override {other}"
            attempt.warn(f"spec.changes.{relation.change}: {how}")

    def _in_force(self, view: View) -> list[SchedulerOverride]:
        now_ns, others = self._clock.now_ns(), []
        for seen in view.list(OVERRIDES):
            try:
                other = read(SchedulerOverride, seen.obj)
            except msgspec.ValidationError:
                continue  # No fathom server stores one; it has no effect.
            if override_active(other, now_ns):
                others.append(other)
        return others

    def _check_approval(self, attempt: WriteAttempt, view: View) -> None:
        assert attempt.obj is not None
        assert attempt.old is not None
        old = read(SchedulerOverride, attempt.old)
        asked = old.status.approval
        if asked is None or not asked.required:
            raise refused(attempt, "the override needs no approval")
        check_approver(attempt, asked.requested_by, "an override that they wrote")
        self._check_not_over(attempt)
        sent = lookup(attempt.obj, "status", "approval") or {}
        if sent.get("specHash") != hash_of(attempt.old):
            why = "the spec has changed since the approver read it: read it again"
            raise conflict(OVERRIDES, attempt.name, why)
        if _approves(attempt):
            self._check_reach(attempt, read(SchedulerOverride, attempt.obj), view)


def _changes_spec(attempt: WriteAttempt) -> bool:
    if attempt.subresource or attempt.obj is None:
        return False
    return attempt.old is None or attempt.obj.get("spec") != attempt.old.get("spec")


def _approves(attempt: WriteAttempt) -> bool:
    if attempt.subresource != APPROVAL:
        return False
    return lookup(attempt.obj, "status", "approval", "approved") is True


def _check_break_glass(attempt: WriteAttempt, override: SchedulerOverride, view: View) -> None:
    """For a person under their own name: the audit log must say who did what."""
    if attempt.user.impersonator or not is_person(attempt.user):
        raise refused(
            attempt, "break-glass is for a person under their own name: no service account, no impersonation"
        )
    role = override.spec.changes.break_glass_role
    seen = view.get(CLUSTER_ROLES, Key("", role))
    if seen is not None and not is_marked(seen.obj):
        why = f'ClusterRole {quoted(role)} is not marked for it (annotation fathom.dev/break-glass: "true")'
        raise refused(attempt, why, (Cause("spec.changes.breakGlassRole", "FieldValueForbidden", why),))


def _contradiction(attempt: WriteAttempt, relation: conflicts.Relation) -> ApiError:
    other = relation.other
    why = f"{relation.change} contradicts the active override {quoted(other.metadata.name)}"
    why += f" (by {other.status.author}, until {other.status.expires_at}): end that one first"
    error = conflict(OVERRIDES, attempt.name, why)
    cause = {"reason": "Contradiction", "message": why, "field": f"spec.changes.{relation.change}"}
    error.details = {**error.details, "causes": [cause]}
    return error
