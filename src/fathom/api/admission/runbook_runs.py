"""RunbookRuns that need approval: nobody writes their record, and so nobody carries them out, before a person
other than their author has approved them.

A runner notes in the record what it is about to do before it does it (`steer/record_writer`); a run whose
record cannot be written does not begin.
"""

from __future__ import annotations

from fathom.api.admission.approvers import APPROVAL, check_approver
from fathom.api.admission.attempt import UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.kinds.approval import LAPSES_NS
from fathom.kinds.runbook_run import PENDING, RUNS, RunbookRun, may_be_carried_out, run_hash
from fathom.kinds.shape import read
from fathom.model.errors import conflict
from fathom.model.objects import lookup
from fathom.model.times import moment_ns
from fathom.model.view import View
from fathom.seams.outside import Clock

STATUS = "status"


class RunbookRuns(Plugin):
    name = "RunbookRuns"
    resources = frozenset({RUNS})
    operations = frozenset({UPDATE})
    subresources = frozenset({STATUS, APPROVAL})
    trusted = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        run = read(RunbookRun, attempt.old or {})
        if attempt.subresource == APPROVAL:
            self._check_approval(attempt, run)
        elif not may_be_carried_out(run):
            raise refused(attempt, f"the run was asked for by a program, and {_missing(run)}")

    def _check_approval(self, attempt: WriteAttempt, run: RunbookRun) -> None:
        asked = run.status.approval
        if asked is None or not asked.required:
            raise refused(attempt, "the run needs no approval")
        check_approver(attempt, asked.requested_by, "a run that they asked for")
        if run.status.phase != PENDING:
            raise refused(attempt, "the run has begun: abort it, if it should not go on")
        requested = moment_ns(asked.requested_at)
        if requested is not None and self._clock.now_ns() >= requested + LAPSES_NS:
            raise refused(attempt, "it has waited for more than an hour: ask for another run")
        sent = lookup(attempt.obj, "status", "approval", "specHash")
        if sent != run_hash(attempt.old or {}):
            raise conflict(RUNS, attempt.name, "it is not the run that the approver has read: read it again")


def _missing(run: RunbookRun) -> str:
    asked = run.status.approval
    if asked is not None and asked.approved is False:
        return f"{asked.approver} has refused it"
    meta = run.metadata
    return (
        f"waits for approval: somebody else must run `fathom runbook approve {meta.name} -n {meta.namespace}`"
    )
