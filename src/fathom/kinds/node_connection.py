"""NodeConnection: whether the API server reaches a node, tried on request. It is answered, never stored:
`api/subresources/connection.py`."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import field_schema, one_of
from fathom.kinds.shape import Meta, Shape


class NodeConnectionStatus(Shape, frozen=True):
    verdict: Annotated[
        str,
        one_of("alive", "unsure", "gone", "unknown"),
        field_schema(
            "alive: the node's agent answered. unsure: the machine answered, the agent did not, so pods may"
            " still run there. gone: nothing answered. unknown: it could not be tried."
        ),
    ] = ""
    message: Annotated[str, field_schema("Why, for people: the error of the connection. May be empty.")] = ""


class NodeConnection(Shape, frozen=True):
    metadata: Meta = Meta()
    status: Annotated[NodeConnectionStatus, field_schema("What came of trying to connect, just now.")] = (
        NodeConnectionStatus()
    )


DEFINITION = KindDefinition(
    shape=NodeConnection,
    about="Whether the API server reaches a node, tried at each request. Its name is the node's. It is"
    " answered and never stored: `kubectl get nodeconnection NODE -o yaml`.",
    plural="nodeconnections",
    namespaced=False,
    verbs=("get",),
)
CONNECTIONS = DEFINITION.resource
