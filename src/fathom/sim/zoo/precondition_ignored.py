"""27. The API server ignores the UID precondition of a delete: a client that is behind deletes the successor
of the object that it meant."""

from __future__ import annotations

from fathom.api import writing
from fathom.sim.zoo import put_back

SCENARIOS = ("owners-come-and-go",)
BREAKS = "a delete names the object's UID"


put_back(writing, "check_preconditions", lambda obj, options, *, resource, revision: None)
