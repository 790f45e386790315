"""A write through the scale subresource drops metadata.managedFields: nobody knows whose the fields are."""

from __future__ import annotations

from fathom.api.field_owners import settle_owners
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    settle_owners,
    "if not known:",
    'if not known or subresource == "scale":',
)
