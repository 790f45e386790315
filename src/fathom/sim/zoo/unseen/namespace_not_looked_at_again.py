"""A terminating namespace that still has content is not looked at again, and stays when that is gone."""

from __future__ import annotations

from fathom.controllers.housekeeping.namespaces import NamespaceController
from fathom.sim.zoo import rewrite

ROOM = "controllers/housekeeping"

rewrite(
    NamespaceController.reconcile,
    "return bool(plan.remaining)",
    "return False",
)
