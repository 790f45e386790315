"""5. No read-your-writes gate: a controller decides again before it sees what it has just written, and
creates one child too many (kuberay#715)."""

from __future__ import annotations

from fathom.control import loop
from fathom.control.commit import Commit
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-seen-late",)
BREAKS = "children ≤ desired + surge"

put_back(Commit, "_remember", lambda self, action, outcome, owner: None)
put_back(loop, "unmet", lambda needs, view, written, *, now_s: [])
