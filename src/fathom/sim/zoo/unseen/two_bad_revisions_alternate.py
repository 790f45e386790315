"""A Deployment that goes back by itself does so also from a revision that it went back to: two revisions that
both fail alternate for ever."""

from __future__ import annotations

from fathom.controllers.deployment import plan_rollback
from fathom.sim.zoo import rewrite

ROOM = "controllers/deployment"

rewrite(
    plan_rollback.is_to_be_reverted,
    'return notes_of(deployment).get(REVERTED_TO) != metadata(sets.new)["name"] and bool(sets.old)',
    "return bool(sets.old)",
)
