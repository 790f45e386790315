"""A renewal takes the lease's epoch from the server's cache: where that is behind, the lease goes back to
an epoch that is over."""

from __future__ import annotations

from fathom.api.admission.fences import LeaseFence
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    LeaseFence._epoch,
    (
        "        if attempt.old is not None and not changes_hands:\n"
        '            written = (metadata(attempt.old).get("annotations") or {}).get(EPOCH_ANNOTATION)\n'
        "            if written is not None:\n"
        "                return int(written)\n"
    ),
    "",
)
