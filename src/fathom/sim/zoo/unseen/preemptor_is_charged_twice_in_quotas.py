"""A quota counts a pod that waits for preempted room twice: itself, and the reservation held for it."""

from __future__ import annotations

from fathom.api.admission.usage import _reservation_usage
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    _reservation_usage,
    (
        "    if reservation_holding(reservation) is None or CHARGED_WITH in (\n"
        '        lookup(reservation, "metadata", "annotations") or ()\n'
        "    ):\n"
    ),
    "    if reservation_holding(reservation) is None:\n",
)
