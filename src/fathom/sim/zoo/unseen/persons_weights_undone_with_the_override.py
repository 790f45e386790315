"""The end of an override puts a route's earlier weights back although a person has written other ones
since."""

from __future__ import annotations

from fathom.controllers.overrides.plan_routes import plan_restore
from fathom.sim.zoo import rewrite

ROOM = "controllers/overrides"

rewrite(
    plan_restore,
    "untouched = written and _text(_routes(route)) == _notes(route).get(WRITTEN)",
    "untouched = written",
)
