"""27. A server deletes whatever has the name, though the request says which object was meant: who heard late
takes away its successor."""

from __future__ import annotations

from fathom.api import writing
from fathom.sim.zoo import put_back

SCENARIOS = ("owners-come-and-go",)
BREAKS = "a delete names the object's UID"


put_back(writing, "check_preconditions", lambda obj, options, *, resource, revision: None)
