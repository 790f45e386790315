"""The kinds that a scheduler follows."""

from __future__ import annotations

from fathom.client.api import Resource
from fathom.control.watches import DISRUPTION_BUDGET, NAMESPACE, NODE, POD, WatchedKind, core, own
from fathom.kinds import (
    capacity_class,
    policy_rollout,
    reservation,
    scheduler_override,
    scheduling_policy,
    tenant_quota,
)

VOLUME = core("PersistentVolume", "persistentvolumes", namespaced=False)
CLAIM = core("PersistentVolumeClaim", "persistentvolumeclaims")
QUOTA = own(tenant_quota.DEFINITION)
CLASS = own(capacity_class.DEFINITION)
POLICY = own(scheduling_policy.DEFINITION)
ROLLOUT = own(policy_rollout.DEFINITION)
OVERRIDE = own(scheduler_override.DEFINITION)
RESERVATION = own(reservation.DEFINITION)

# Followed only where fathom is attached, and may: others bind claims and provision volumes there.
STORAGE_CLASS = WatchedKind(
    "StorageClass", Resource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
)

KINDS = (
    POD, NODE, NAMESPACE, DISRUPTION_BUDGET, VOLUME, CLAIM,
    QUOTA, CLASS, POLICY, ROLLOUT, OVERRIDE, RESERVATION,
)  # fmt: skip
