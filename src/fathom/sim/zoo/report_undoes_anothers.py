"""44. An agent writes its node's conditions back without the resourceVersion that it read: it undoes what
others have written about the node in the meantime."""

from __future__ import annotations

from fathom.agent import heartbeat
from fathom.model.objects import Obj, metadata
from fathom.sim.zoo import put_back

SCENARIOS = ("agents-alone",)
BREAKS = "no process undoes another's condition"


def unguarded(node: Obj) -> Obj:
    return {name: value for name, value in metadata(node).items() if name != "resourceVersion"}


put_back(heartbeat, "metadata", unguarded)
