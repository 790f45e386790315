"""BreakGlassMarks: what a user writes into roles while under break-glass carries the override's UID.

The override controller finds it by that when the override ends, and reports what is left. Nobody removes the
mark: it says how the object came about, also after the override.
"""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.break_glass import MARK, USABLE
from fathom.api.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Obj, metadata, with_metadata
from fathom.model.view import View

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
        if override is None or (attempt.old is not None and before == USABLE):
            return None  # A role that may be used so is the operators' own, made before.
        return override.metadata.uid
