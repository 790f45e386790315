"""5, in the real controllers. No read-your-writes gate: the Deployment controller decides again before it
sees its own last step, and takes another one (kuberay#715)."""

from __future__ import annotations

from fathom.cache.caches import Caches
from fathom.control import loop
from fathom.control.commit import Commit
from fathom.sim.zoo import put_back

SCENARIOS = ("rollouts", "rollouts-seen-late")
BREAKS = "children ≤ desired + surge"

put_back(Commit, "_remember", lambda self, action, outcome, owner: None)
put_back(Caches, "apply_write", lambda self, kind, obj: None)
put_back(loop, "unmet", lambda needs, view, written, *, now_s: [])
