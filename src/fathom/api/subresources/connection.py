"""`nodeconnections/NODE`: whether this API server reaches the node, tried now. Nothing is stored.

A node whose heartbeats stop may be dead, or its agent, or the way from it to us. This is another way.
"""

from __future__ import annotations

from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.kinds.shape import API_VERSION
from fathom.model.body import encode_json
from fathom.model.errors import not_found
from fathom.model.objects import Key


async def get_connection(core: Core, call: Call) -> Response:
    """Where its agent is, is in the Node; one that is not there was never, or is no more."""
    name = call.target.name
    node = core.cache.get("nodes", Key("", name))
    if node is None:
        raise not_found("nodes", name)
    reached = await core.agents.reach(node.obj)
    answer = {
        "apiVersion": API_VERSION,
        "kind": "NodeConnection",
        "metadata": {"name": name},
        "status": {"verdict": reached.verdict, "message": reached.message},
    }
    return Response(status=200, body=encode_json(answer))
