"""BreakGlassMarks: what a user writes into roles while under break-glass carries the override's UID.
BreakGlassTokens: no token that would outlast it is stored under it.

The override controller finds it by that when the override ends, and reports what is left. Nobody removes the
mark: it says how the object came about, also after the override.
"""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.break_glass import MARK, USABLE
from fathom.api.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from fathom.api.request import RequestTarget
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Obj, metadata, with_metadata
from fathom.model.view import View

ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
KINDS = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount")


class BreakGlassMarks(Plugin):
    name = "BreakGlassMarks"
    resources = frozenset({ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, "serviceaccounts"})
    operations = frozenset({CREATE, UPDATE})
    trusted = True
    reads = (Reads("SchedulerOverride"),)
    writes = tuple(Writes(kind, ("metadata.annotations",)) for kind in KINDS)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        obj = attempt.obj
        assert obj is not None
        mark = self._mark(attempt)
        if mark is None:
            return obj
        annotations = metadata(obj).get("annotations") or {}
        return with_metadata(obj, annotations={**annotations, MARK: mark})

    def _mark(self, attempt: WriteAttempt) -> str | None:
        """None: the object stays as it is written."""
        before = (metadata(attempt.old or {}).get("annotations") or {}).get(MARK)
        if before is not None and before != USABLE:
            return str(before)
        glass = self._authorizer.break_glass
        override = None if glass is None else glass.active_for(attempt.user, attempt.namespace)
        if override is None and attempt.break_glass:
            raise refused(attempt, f"the override {attempt.break_glass}, which allowed it, has ended since")
        if override is None or (attempt.old is not None and before == USABLE):
            return None  # A role that may be used so is the operators' own, made before.
        return override.metadata.uid


class BreakGlassTokens(Plugin):
    """A token in a Secret lasts as long as its account. The proof of the override's end could not name it
    either: fathom's controllers may not read Secrets."""

    name = "BreakGlassTokens"
    resources = frozenset({"secrets"})
    operations = frozenset({CREATE})  # The type of a Secret never changes.
    trusted = True
    reads = (Reads("SchedulerOverride"),)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        glass = self._authorizer.break_glass
        if glass is None or (attempt.obj or {}).get("type") != ACCOUNT_TOKEN:
            return
        override = glass.active_for(attempt.user, attempt.namespace)
        target = RequestTarget(
            verb="create", path="", version="v1", plural="secrets", namespace=attempt.namespace
        )
        if override is not None and not self._authorizer.by_roles(attempt.user, target).allowed:
            why = "a token in a Secret would outlast break-glass: request one, which ends with it"
            raise refused(attempt, f"{why} (kubectl create token)")
