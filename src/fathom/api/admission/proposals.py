"""RepairProposals: only repair creates proposals, and only a person decides about them.

Repair acts upon proposals with permissions that their writers may not have. So neither the maker of a
proposal nor any of fathom's own accounts may approve it.
"""

from __future__ import annotations

from fathom.api.admission.approvers import APPROVAL, check_approver
from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.kinds.repair_proposal import OVER, PROPOSALS
from fathom.model.accounts import REPAIR
from fathom.model.view import View


class RepairProposals(Plugin):
    name = "RepairProposals"
    resources = frozenset({PROPOSALS})
    operations = frozenset({CREATE, UPDATE})
    subresources = frozenset({"", APPROVAL})
    trusted = True

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if attempt.operation == CREATE and (attempt.user.name != REPAIR or attempt.user.impersonator):
            raise refused(attempt, f"only {REPAIR} creates proposals")
        if attempt.subresource == APPROVAL:
            _check_approval(attempt)


def _check_approval(attempt: WriteAttempt) -> None:
    status = (attempt.old or {}).get("status") or {}
    check_approver(attempt, (str(status.get("maker") or ""),), "proposals")
    if status.get("phase") in OVER:
        raise refused(attempt, f"the proposal is over ({status['phase']}): there is nothing left to decide")
