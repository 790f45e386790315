"""After an unknown outcome, a create counts as done if any object has the name, whoever owns it."""

from __future__ import annotations

from fathom.control.plan import _is_that_child
from fathom.sim.zoo import rewrite

ROOM = "client"

rewrite(
    _is_that_child,
    'if (wanted_owner or {}).get("uid") != (owner or {}).get("uid"):',
    "if False:",
)
