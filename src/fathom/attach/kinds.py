"""The kinds that an observer copies, and what its answers lack where it may not read one of them."""

from __future__ import annotations

import msgspec

from fathom.client.api import Resource
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.resources import LEASES


class MirroredKind(msgspec.Struct, frozen=True):
    kind: str
    resource: Resource
    lack: str  # What an observer cannot do without it.
    needed: bool = False  # Without it there is nothing to observe.
    namespaces: tuple[str, ...] = ()  # Only these; empty: all, or the kind has none.

    @property
    def name(self) -> str:
        """'pods', 'deployments.apps'"""
        return self.resource.name


def _kind(
    kind: str,
    group: str,
    version: str,
    plural: str,
    lack: str,
    *,
    namespaced: bool = True,
    needed: bool = False,
) -> MirroredKind:
    return MirroredKind(kind, Resource(group, version, plural, namespaced), lack, needed)


_PLACING = "rules about them are not applied when a decision is made again"

MIRRORED: tuple[MirroredKind, ...] = (
    _kind("Namespace", "", "v1", "namespaces", "nothing can be observed", namespaced=False, needed=True),
    _kind("Node", "", "v1", "nodes", "nothing can be observed", namespaced=False, needed=True),
    _kind("Pod", "", "v1", "pods", "nothing can be observed", needed=True),
    _kind("Event", "", "v1", "events", "who scheduled a pod, and what kubelets say, is not known"),
    _kind("Deployment", "apps", "v1", "deployments", "`why` and `status` know no Deployments"),
    _kind("ReplicaSet", "apps", "v1", "replicasets", "the pods of a Deployment are not known"),
    _kind("StatefulSet", "apps", "v1", "statefulsets", "owners of their pods are not known"),
    _kind("DaemonSet", "apps", "v1", "daemonsets", "owners of their pods are not known"),
    _kind("Job", "batch", "v1", "jobs", "`why` and `status` know no Jobs"),
    _kind("CronJob", "batch", "v1", "cronjobs", "owners of their Jobs are not known"),
    _kind(
        "HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers", "autoscalers are unknown"
    ),
    _kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", "preemption is judged without them"),
    _kind("Service", "", "v1", "services", "`why` knows no Services"),
    _kind("EndpointSlice", "discovery.k8s.io", "v1", "endpointslices", "whether a pod serves is not known"),
    _kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", _PLACING),
    _kind("PersistentVolume", "", "v1", "persistentvolumes", _PLACING, namespaced=False),
    _kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", _PLACING, namespaced=False),
    _kind("ResourceQuota", "", "v1", "resourcequotas", "a refusal by a quota is not explained"),
    _kind("SchedulerOverride", "fathom.dev", "v1alpha1", "scheduleroverrides", "overrides are not known"),
    # Only leaders' leases: those of nodes change every ten seconds, and Node conditions say the same.
    MirroredKind(
        "Lease", LEASES, "whether a scheduler leads is not known",
        namespaces=("kube-system", SYSTEM_NAMESPACE),
    ),
)  # fmt: skip
