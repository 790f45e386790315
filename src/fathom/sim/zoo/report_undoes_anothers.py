"""44. An agent writes its node's conditions back without saying which it had read: what others have said of
the node in the meantime is undone."""

from __future__ import annotations

from fathom.agent import heartbeat
from fathom.model.objects import Obj, metadata
from fathom.sim.zoo import put_back

SCENARIOS = ("agents-alone",)
BREAKS = "no process undoes another's condition"


def unguarded(node: Obj) -> Obj:
    return {name: value for name, value in metadata(node).items() if name != "resourceVersion"}


put_back(heartbeat, "metadata", unguarded)
