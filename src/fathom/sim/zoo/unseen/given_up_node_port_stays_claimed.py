"""A node port that a Service gives up by an update stays claimed: no Service ever gets it again."""

from __future__ import annotations

from fathom.api.admission.addresses import ServiceAddresses
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    ServiceAddresses.charge,
    "for claim in lost]",
    "for claim in lost if not claim.isdigit()]",
)
