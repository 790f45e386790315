"""A pod that is being deleted stays a ready endpoint of its Service until it is gone."""

from __future__ import annotations

from fathom.controllers.endpoints.plan import endpoint_of
from fathom.sim.zoo import rewrite

ROOM = "controllers/endpoints"

rewrite(
    endpoint_of,
    '"ready": publishes_all or (serving and not terminating),',
    '"ready": publishes_all or serving,',
)
