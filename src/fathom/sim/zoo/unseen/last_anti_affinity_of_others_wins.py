"""Of several anti-affinity terms of placed pods with one topology label, only the last one counts."""

from __future__ import annotations

from fathom.schedule.decide.filters.podaffinity import _unwelcome
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    _unwelcome,
    "counts[key] = counts[key] + by_domain if key in counts else by_domain",
    "counts[key] = by_domain",
)
