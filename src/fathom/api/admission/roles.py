"""RoleEscalation: users cannot grant more than they hold. The rules are in `auth.escalation`."""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.escalation import check_escalation
from fathom.api.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from fathom.model.view import View


class RoleEscalation(Plugin):
    name = "RoleEscalation"
    resources = frozenset({ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS})
    operations = frozenset({CREATE, UPDATE})
    trusted = True

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if attempt.obj is not None:
            check_escalation(attempt.user, attempt.kind, attempt.obj, attempt.old, self._authorizer)
