"""Kubernetes resources that several packages send requests about. Those of fathom.dev are in `kinds`."""

from __future__ import annotations

from fathom.model.resource import Resource

AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments")
EVENTS = Resource("", "v1", "events")
JOBS = Resource("batch", "v1", "jobs")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
NODES = Resource("", "v1", "nodes", namespaced=False)
PODS = Resource("", "v1", "pods")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas")
SECRETS = Resource("", "v1", "secrets")
SERVICES = Resource("", "v1", "services")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")
