"""The kinds that a scheduler follows."""

from __future__ import annotations

from fathom.client.api import Resource
from fathom.control.watches import NAMESPACE, NODE, POD, Kind, core
from fathom.model.own import GROUP, VERSION


def own(name: str, plural: str, *, namespaced: bool = False) -> Kind:
    return Kind(name, Resource(GROUP, VERSION, plural, namespaced))


DISRUPTION_BUDGET = Kind("PodDisruptionBudget", Resource("policy", "v1", "poddisruptionbudgets"))
VOLUME = core("PersistentVolume", "persistentvolumes", namespaced=False)
CLAIM = core("PersistentVolumeClaim", "persistentvolumeclaims")
STORAGE_CLASS = Kind("StorageClass", Resource("storage.k8s.io", "v1", "storageclasses", namespaced=False))
QUOTA = own("TenantQuota", "tenantquotas")
CLASS = own("CapacityClass", "capacityclasses")
POLICY = own("SchedulingPolicy", "schedulingpolicies")
ROLLOUT = own("PolicyRollout", "policyrollouts")
OVERRIDE = own("SchedulerOverride", "scheduleroverrides", namespaced=True)
RESERVATION = own("Reservation", "reservations", namespaced=True)

KINDS = (
    POD, NODE, NAMESPACE, DISRUPTION_BUDGET, VOLUME, CLAIM,
    QUOTA, CLASS, POLICY, ROLLOUT, OVERRIDE, RESERVATION,
)  # fmt: skip
