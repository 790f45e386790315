"""The definition of a custom kind goes as soon as all its objects are being deleted: those that a finalizer
holds stay in the store, and nobody can reach them any more."""

from __future__ import annotations

from fathom.controllers.housekeeping.custom_definitions import DefinitionController
from fathom.sim.zoo import rewrite

ROOM = "controllers/housekeeping"

rewrite(
    DefinitionController.reconcile,
    "if list(self._view.list(name)):",
    "if not all(is_deleting(stored.obj) for stored in self._view.list(name)):",
)
