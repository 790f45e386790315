"""A Role that is edited or deleted goes on granting the rules that it had when it was first read."""

from __future__ import annotations

from fathom.api.auth.rbac import Rbac
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    Rbac.role_rules,
    "(self._view.revision(CLUSTER_ROLES), self._view.revision(ROLES))",
    "(self._view.revision(CLUSTER_ROLES), 0)",
    "if key not in self._compiled:",
    "if self._compiled.get(key) is None:",
)
