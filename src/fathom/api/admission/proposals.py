"""RepairProposals: only repair creates proposals, and only a person decides about them.

Repair acts upon proposals with permissions that their writers may not have. So neither the maker of a
proposal nor any of fathom's own accounts may approve it.

Where an override approves a proposal, repair reports which one, and its author is stamped as the approver: an
override that is not in force, or does not name the proposal, makes nobody an approver.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from fathom.api.admission.approvers import APPROVAL, check_approver
from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.kinds.repair_proposal import OVER, PROPOSALS
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, override_active
from fathom.kinds.shape import read
from fathom.model.accounts import REPAIR
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Key, Obj
from fathom.model.times import timestamp
from fathom.model.view import View
from fathom.seams.outside import Clock

STATUS = "status"
BY_OVERRIDE = "approvedByOverride"
BY_AN_OVERRIDE = ("approver", "approvedAt", BY_OVERRIDE)


class RepairProposals(Plugin):
    name = "RepairProposals"
    resources = frozenset({PROPOSALS})
    operations = frozenset({CREATE, UPDATE})
    subresources = frozenset({"", APPROVAL, STATUS})
    trusted = True
    reads = (Reads("SchedulerOverride", ("spec", "status")),)
    writes = (
        Writes("RepairProposal", ("status.approver", "status.approvedAt", "status.approvedByOverride")),
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        obj = attempt.obj
        assert obj is not None
        status: Obj = obj.get("status") or {}
        if attempt.subresource != STATUS or status.get("phase") in OVER:
            return obj
        if status.get("approved") is not None:
            return {**obj, "status": _without(status, (BY_OVERRIDE,))}
        override = self._approving(str(status.get(BY_OVERRIDE) or ""), attempt, view)
        if override is None:
            return {**obj, "status": _without(status, BY_AN_OVERRIDE)}
        stamps = {"approver": override.status.author}
        if status.get("approver") != override.status.author or "approvedAt" not in status:
            stamps["approvedAt"] = timestamp(self._clock.now_ns())
        return {**obj, "status": {**status, **stamps}}

    def _approving(self, name: str, attempt: WriteAttempt, view: View) -> SchedulerOverride | None:
        seen = view.get(OVERRIDES, Key(attempt.namespace, name)) if name else None
        try:
            override = None if seen is None else read(SchedulerOverride, seen.obj)
        except msgspec.ValidationError:
            return None  # No fathom server stores one; it has no effect.
        if override is None or attempt.name not in override.spec.changes.approve_repairs:
            return None
        return override if override_active(override, self._clock.now_ns()) else None

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if attempt.operation == CREATE and (attempt.user.name != REPAIR or attempt.user.impersonator):
            raise refused(attempt, f"only {REPAIR} creates proposals")
        if attempt.subresource == APPROVAL:
            _check_approval(attempt)


def _without(status: Obj, fields: Collection[str]) -> Obj:
    return {name: value for name, value in status.items() if name not in fields}


def _check_approval(attempt: WriteAttempt) -> None:
    status = (attempt.old or {}).get("status") or {}
    check_approver(attempt, (str(status.get("maker") or ""),), "proposals")
    if status.get("phase") in OVER:
        raise refused(attempt, f"the proposal is over ({status['phase']}): there is nothing left to decide")
