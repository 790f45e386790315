"""A leader's write is compared with the fence that its server knows, and its commit does not expect that one:
it commits although another leader has taken over by then."""

from __future__ import annotations

from fathom.api.admission.fences import Fencing
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    Fencing.charge,
    "return (Charge(preconditions=(Expect(fence_key(lease), seen.revision),)),)",
    "return ()",
)
