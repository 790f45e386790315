"""A run that is undone while the outcome of a step is unknown does not wait for the step's request: that
arrives after the compensation, and what it made stays."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.run_record import _not_found

ROOM = "steer"

rewrite(
    _not_found,
    (
        "    if now_ns < (moment_ns(record.acted_at) or 0) + LATE_NS_MAX:\n"
        '        return Unsettled(f"{result.message}; its request may still arrive")\n'
    ),
    "",
)
