"""`nodeconnections/NODE`: whether this API server can reach the node, tried now. Nothing is stored.

When a node's heartbeats stop, the node, its agent or the network from it to us may have failed. This tests
the opposite direction.
"""

from __future__ import annotations

from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.kinds.shape import API_VERSION
from fathom.model.body import encode_json
from fathom.model.errors import not_found
from fathom.model.objects import Key


async def get_connection(core: Core, call: Call) -> Response:
    """The agent's address is in the Node; without a Node, the answer is a 404."""
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
