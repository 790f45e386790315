"""A delete that names a UID beside a revision is carried out whatever the object has become since."""

from __future__ import annotations

from fathom.api.removal import check_preconditions
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    check_preconditions,
    "    if wanted.resource_version is not None and ",
    "    elif wanted.uid is None and wanted.resource_version is not None and ",
)
