"""The code that recorded processes run, by ids that stay when the code moves.

A tape names its process and the controllers that ran in it. Later versions, in which modules may have other
names, must read it too, so it holds ids (`scheduler`, `controllers/node-health`), and this table says where
their code is now. A user's own code has no id: it is named `module:name`. Versions before this table named
all code that way, fathom's included; `OLD_NAMES` lists those names.
"""

from __future__ import annotations

from collections.abc import Mapping

PROCESSES: Mapping[str, str] = {
    "agent": "fathom.agent.process:begin",
    "bench/record": "fathom.bench.record:begin",
    "controllers": "fathom.control.process:begin",
    "gateway": "fathom.gateway.controller:begin",
    "scheduler": "fathom.schedule.loop.process:begin",
}

CONTROLLERS: Mapping[str, str] = {
    "controllers/deployment": "fathom.controllers.deployment.controller:Deployments",
    "controllers/replicaset": "fathom.controllers.replicaset.controller:ReplicaSets",
    "controllers/job": "fathom.controllers.job.controller:Jobs",
    "controllers/endpoint-slices": "fathom.controllers.endpoints.controller:EndpointSlices",
    "controllers/endpoints": "fathom.controllers.endpoints.controller:EndpointsOfServices",
    "controllers/mirrored-endpoints": "fathom.controllers.endpoints.controller:MirroredEndpoints",
    "controllers/budget": "fathom.controllers.budget.controller:DisruptionBudgets",
    "controllers/deployment-progress": "fathom.controllers.progress.controller:DeploymentProgress",
    "controllers/replicaset-progress": "fathom.controllers.progress.controller:ReplicaSetProgress",
    "controllers/job-progress": "fathom.controllers.progress.controller:JobProgress",
    "controllers/autoscaler": "fathom.controllers.autoscaler.controller:Autoscalers",
    "controllers/node-health": "fathom.controllers.node_health.controller:Nodes",
    "controllers/node-evictions": "fathom.controllers.node_health.controller:Evictions",
    "controllers/node-brake-status": "fathom.controllers.node_health.brake_status:BrakeStatus",
    "controllers/node-trust": "fathom.controllers.node_health.trust:Trust",
    "controllers/repair-reservations": "fathom.controllers.repair.controller:RepairReservations",
    "controllers/repair-pods": "fathom.controllers.repair.controller:RepairPods",
    "controllers/repair-deployment-finalizers": "fathom.controllers.repair.controller:DeploymentFinalizers",
    "controllers/repair-replicaset-finalizers": "fathom.controllers.repair.controller:ReplicaSetFinalizers",
    "controllers/repair-job-finalizers": "fathom.controllers.repair.controller:JobFinalizers",
    "controllers/repair-proposals": "fathom.controllers.repair.controller:RepairProposalsController",
    "controllers/repair-completion": "fathom.controllers.repair.controller:RepairCompletion",
    "controllers/override-acknowledgements": "fathom.controllers.overrides.acknowledging:Acknowledgements",
    "controllers/overrides": "fathom.controllers.overrides.controller:Overrides",
    "controllers/policy-rollout": "fathom.schedule.policy_rollout.controller:PolicyRollouts",
    "controllers/cluster-summary": "fathom.controllers.cluster_summary:ClusterSummary",
}

# Name written by versions before this table -> id.
OLD_NAMES: Mapping[str, str] = {
    "fathom.agent.gateway.following:begin": "gateway",
    "fathom.agent.process:begin": "agent",
    "fathom.bench.record:begin": "bench/record",
    "fathom.control.process:begin": "controllers",
    "fathom.controllers.autoscaling:Autoscalers": "controllers/autoscaler",
    "fathom.controllers.brakestatus:BrakeStatus": "controllers/node-brake-status",
    "fathom.controllers.deployments:Deployments": "controllers/deployment",
    "fathom.controllers.disruption:DisruptionBudgets": "controllers/budget",
    "fathom.controllers.endpoints:EndpointSlices": "controllers/endpoint-slices",
    "fathom.controllers.endpoints:EndpointsOfServices": "controllers/endpoints",
    "fathom.controllers.endpoints:MirroredEndpoints": "controllers/mirrored-endpoints",
    "fathom.controllers.jobs:Jobs": "controllers/job",
    "fathom.controllers.nodes:Evictions": "controllers/node-evictions",
    "fathom.controllers.nodes:Nodes": "controllers/node-health",
    "fathom.controllers.progress:DeploymentProgress": "controllers/deployment-progress",
    "fathom.controllers.progress:JobProgress": "controllers/job-progress",
    "fathom.controllers.progress:ReplicaSetProgress": "controllers/replicaset-progress",
    "fathom.controllers.repair:RepairCompletion": "controllers/repair-completion",
    "fathom.controllers.repair:DeploymentFinalizers": "controllers/repair-deployment-finalizers",
    "fathom.controllers.repair:JobFinalizers": "controllers/repair-job-finalizers",
    "fathom.controllers.repair:RepairPods": "controllers/repair-pods",
    "fathom.controllers.repair:RepairProposalsController": "controllers/repair-proposals",
    "fathom.controllers.repair:ReplicaSetFinalizers": "controllers/repair-replicaset-finalizers",
    "fathom.controllers.repair:RepairReservations": "controllers/repair-reservations",
    "fathom.controllers.replicasets:ReplicaSets": "controllers/replicaset",
    "fathom.controllers.summary:ClusterSummary": "controllers/cluster-summary",
    "fathom.controllers.trust:Trust": "controllers/node-trust",
    "fathom.schedule.process:begin": "scheduler",
    "fathom.schedule.rollouts:PolicyRollouts": "controllers/policy-rollout",
}


def id_of(name: str) -> str:
    """The id that a recorded name stands for, '' if it is a user's own code."""
    code_id = OLD_NAMES.get(name, name)
    return code_id if code_id in PROCESSES or code_id in CONTROLLERS else ""


def location_of(name: str) -> str:
    """Where the code of a recorded name is: `module:attribute`."""
    code_id = OLD_NAMES.get(name, name)
    return PROCESSES.get(code_id) or CONTROLLERS.get(code_id) or name
