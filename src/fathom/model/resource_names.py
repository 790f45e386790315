"""Kubernetes resources that several packages name, as `plural.group`. Those of fathom.dev are in `kinds`."""

from __future__ import annotations

from typing import Final

AUTOSCALERS: Final = "horizontalpodautoscalers.autoscaling"
BUDGETS: Final = "poddisruptionbudgets.policy"
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
DEPLOYMENTS: Final = "deployments.apps"
JOBS: Final = "jobs.batch"
LEASES: Final = "leases.coordination.k8s.io"
PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
REPLICA_SETS: Final = "replicasets.apps"
SLICES: Final = "endpointslices.discovery.k8s.io"

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
