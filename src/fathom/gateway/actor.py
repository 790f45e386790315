"""What the gateway reads and writes."""

from __future__ import annotations

from fathom.model.accounts import GATEWAY as ACCOUNT
from fathom.model.conditions import CONNECTIONS_FAIL, SERVING_CONDITION
from fathom.model.declared import API_SERVER, GATEWAY_PROXY, MUTATING_ROOM, Actor, Reads, Timer, Writes

POLL_S = 5.0  # Between two probes of an endpoint, and between two reports of the proxy.

GATEWAY = Actor(
    name="gateway",
    process="gateway",
    account=ACCOUNT,
    reads=(
        Reads("Service", ("metadata", "spec", "status.conditions")),
        Reads("EndpointSlice"),
        Reads("TrafficRoute"),
        Reads("Node", ("metadata.labels", "spec.taints")),
    ),
    writes=(
        Writes("Pod", (f"status.conditions[type={SERVING_CONDITION}]",)),
        Writes("Service", (f"status.conditions[type={CONNECTIONS_FAIL}]",)),
        Writes("TrafficRoute", ("status",)),
        Writes("Event", creates=True),
    ),
    woken_by=("Service", "EndpointSlice", "TrafficRoute", "Node"),
    waits_in=(MUTATING_ROOM,),
    calls=(API_SERVER, GATEWAY_PROXY),
    timers=(Timer("probes of suspect nodes", POLL_S),),
)
