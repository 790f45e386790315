"""The controllers that a cluster runs, by the names under which a recorded process finds them."""

from __future__ import annotations

WORKLOADS = (
    "fathom.controllers.deployments:Deployments",
    "fathom.controllers.replicasets:ReplicaSets",
    "fathom.controllers.jobs:Jobs",
    "fathom.controllers.endpoints:EndpointSlices",
    "fathom.controllers.endpoints:EndpointsOfServices",
    "fathom.controllers.endpoints:MirroredEndpoints",
    "fathom.controllers.disruption:DisruptionBudgets",
    "fathom.controllers.progress:DeploymentProgress",
    "fathom.controllers.progress:ReplicaSetProgress",
    "fathom.controllers.progress:JobProgress",
    "fathom.controllers.autoscaling:Autoscalers",
)

NODES = (
    "fathom.controllers.nodes:Nodes",
    "fathom.controllers.nodes:Evictions",
    "fathom.controllers.brakestatus:BrakeStatus",
    "fathom.controllers.trust:Trust",
)

REPAIR = (
    "fathom.controllers.repair:Reservations",
    "fathom.controllers.repair:Pods",
    "fathom.controllers.repair:DeploymentFinalizers",
    "fathom.controllers.repair:ReplicaSetFinalizers",
    "fathom.controllers.repair:JobFinalizers",
    "fathom.controllers.repair:Proposals",
    "fathom.controllers.repair:Completion",
)

POLICIES = ("fathom.schedule.rollouts:PolicyRollouts",)

CONTROLLERS = (*WORKLOADS, *NODES, *REPAIR, *POLICIES)

# For the line that `fathom up` shows.
SUMMARY = "fathom.controllers.summary:Summary"
