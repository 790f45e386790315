"""The words that rules share: what could help a pod that a rule rejected. (The tables follow here.)"""

from __future__ import annotations

from typing import Final

# Events, as the queue names them. A rule lists those that could make it change its mind.
NODE_ADDED: Final = "NodeAdded"
NODE_CHANGED: Final = "NodeChanged"  # Labels, taints, allocatable, unschedulable, conditions.
POD_GONE: Final = "PodGone"  # From a node: deleted, finished, forgotten.
POD_PLACED: Final = "PodPlaced"  # On a node: somebody's affinity may be met now.
POD_CHANGED: Final = "PodChanged"  # The waiting pod itself.
QUOTA_CHANGED: Final = "QuotaChanged"
POLICY_CHANGED: Final = "PolicyChanged"
OVERRIDE_CHANGED: Final = "OverrideChanged"
CLASS_CHANGED: Final = "CapacityClassChanged"
VOLUME_CHANGED: Final = "VolumeChanged"
NAMESPACE_CHANGED: Final = "NamespaceChanged"
TRUST_CHANGED: Final = "TrustChanged"
VIEW_FRESH: Final = "ViewFresh"
