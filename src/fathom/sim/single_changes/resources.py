"""The resources that changes are made to, by the names that kubectl takes."""

from __future__ import annotations

from fathom.client.api import Resource

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas")
QUOTAS = Resource("fathom.dev", "v1alpha1", "tenantquotas", namespaced=False)
OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
CLASSES = Resource("fathom.dev", "v1alpha1", "capacityclasses", namespaced=False)
POLICIES = Resource("fathom.dev", "v1alpha1", "schedulingpolicies", namespaced=False)
ROLLOUTS = Resource("fathom.dev", "v1alpha1", "policyrollouts", namespaced=False)
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
VOLUMES = Resource("", "v1", "persistentvolumes", namespaced=False)

BY_KIND = {
    "pod": PODS,
    "node": NODES,
    "deployment": Resource("apps", "v1", "deployments"),
    "statefulset": Resource("apps", "v1", "statefulsets"),
    "daemonset": Resource("apps", "v1", "daemonsets"),
    "resourcequota": RESOURCE_QUOTAS,
    "tenantquota": QUOTAS,
    "scheduleroverride": OVERRIDES,
    "capacityclass": CLASSES,
    "schedulingpolicy": POLICIES,
    "policyrollout": ROLLOUTS,
    "persistentvolumeclaim": CLAIMS,
    "persistentvolume": VOLUMES,
}
