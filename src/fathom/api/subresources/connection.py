"""`nodes/connection`: whether this API server reaches the node, tried now. Nothing is stored.

A node whose heartbeats stop may be dead, or its agent, or the way from it to us. This is another way.
"""

from __future__ import annotations

from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs.get import read
from fathom.model.body import encode_json
from fathom.model.objects import metadata
from fathom.model.own.shape import API_VERSION


async def get_connection(core: Core, call: Call) -> Response:
    node = (await read(core, call)).body.obj
    reached = await core.agents.reach(node)
    answer = {
        "apiVersion": API_VERSION,
        "kind": "NodeConnection",
        "metadata": {"name": metadata(node)["name"]},
        "status": {"verdict": reached.verdict, "message": reached.message},
    }
    return Response(status=200, body=encode_json(answer))
