"""A budget expects a Deployment's pods once for each of its revisions that still has pods."""

from __future__ import annotations

from fathom.controllers.budget.controller import _scaled
from fathom.sim.zoo import rewrite

ROOM = "controllers/budget"

rewrite(
    _scaled,
    'return str(metadata(owner)["uid"]), size_of(owner)',
    'return str(metadata(replica_set)["uid"]), size_of(owner)',
)
