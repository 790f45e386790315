"""What an agent reads and writes. Each agent may write its own node and the pods on it, and nothing else."""

from __future__ import annotations

from fathom.agent.settings import AgentSettings
from fathom.model.declared import API_SERVER, MUTATING_ROOM, NODE_ROOM, Actor, Reads, Timer, Writes

_SETTINGS = AgentSettings(node="")

AGENT = Actor(
    name="agent",
    process="agent",
    account="system:node:NAME",
    reads=(
        Reads("Pod", ("metadata", "spec", "status")),
        Reads("ConfigMap", ("data",), source="api"),
        Reads("Secret", ("data",), source="api"),
        Reads("Node", ("metadata", "spec", "status"), source="api"),
    ),
    writes=(
        Writes(
            "Pod",
            (
                "status.conditions[type=ContainersReady]",
                "status.conditions[type=DisruptionTarget]",
                "status.conditions[type=Initialized]",
                "status.conditions[type=PodReadyToStartContainers]",
                "status.conditions[type=PodScheduled]",
                "status.conditions[type=Ready]",
                "status.conditions[type=Starting]",
                "status.containerStatuses",
                "status.hostIP",
                "status.hostIPs",
                "status.initContainerStatuses",
                "status.message",
                "status.observedGeneration",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.qosClass",
                "status.reason",
                "status.startTime",
            ),
            deletes=True,
        ),
        Writes("Node", ("metadata.annotations", "metadata.labels", "status"), creates=True),
        Writes("Lease", ("metadata.ownerReferences", "spec"), creates=True),
        Writes("NodeConnection", ("*",)),  # Answers: an API server asks the agent for these two.
        Writes("PodMetrics", ("*",)),
        Writes("Event", ("count", "lastTimestamp"), creates=True),
    ),
    woken_by=("Pod",),
    takes=(NODE_ROOM,),
    waits_in=(MUTATING_ROOM,),
    calls=(API_SERVER,),
    timers=(
        Timer("heartbeat", _SETTINGS.renew_s, spread=0.05),
        Timer("unchanged status", _SETTINGS.status_s),
    ),
)
