"""NodeConnection: whether the API server reaches a node, tried on request. It is answered, never stored:
`api/subresources/connection.py`."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import one_of
from fathom.kinds.shape import Meta, Shape


class NodeConnectionStatus(Shape, frozen=True):
    verdict: Annotated[str, one_of("alive", "unsure", "gone", "unknown")] = ""
    message: str = ""


class NodeConnection(Shape, frozen=True):
    """Cluster-scoped; its name is the node's."""

    metadata: Meta = Meta()
    status: NodeConnectionStatus = NodeConnectionStatus()


DEFINITION = KindDefinition(shape=NodeConnection, plural="nodeconnections", namespaced=False, verbs=("get",))
CONNECTIONS = DEFINITION.resource
