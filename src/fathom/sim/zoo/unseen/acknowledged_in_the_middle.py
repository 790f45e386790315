"""A controller acknowledges an override while passes that began without it are still going on."""

from __future__ import annotations

from fathom.controllers.overrides.acknowledging import _Acknowledging
from fathom.sim.zoo import rewrite

ROOM = "controllers/overrides"

rewrite(
    _Acknowledging.reconcile,
    "if oldest_ns is not None and oldest_ns <= self._seen[key][1]:",
    "if False:",
)
