"""Names of the checks that a binding must pass. The API server runs them, and its refusal names the first
that fails; the scheduler decides by that name what to do next."""

from __future__ import annotations

from typing import Final

# In the order in which they run.
POD_GONE: Final = "PodGone"
POD_UID_CHANGED: Final = "PodUidChanged"
POD_DELETING: Final = "PodDeleting"
POD_BOUND: Final = "PodBound"
POD_GATED: Final = "PodGated"
NODE_GONE: Final = "NodeGone"
NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
POLICY_INACTIVE: Final = "PolicyInactive"
OVERRIDE_INACTIVE: Final = "OverrideInactive"
NODE_CORDONED: Final = "NodeCordoned"  # By an override; `unschedulable` is the check above.
RESERVATION_GONE: Final = "ReservationGone"
CLASS_RESERVED: Final = "ClassReserved"
NODE_FULL: Final = "NodeFull"
NODE_PORTS: Final = "NodePorts"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
FENCE_LOST: Final = "FenceLost"
CONTENDED: Final = "Contended"  # Not a check: too many races were lost. Trying again may well help.

ABOUT_NODE: Final = frozenset({NODE_GONE, NODE_UNSCHEDULABLE, NODE_CORDONED, NODE_FULL, NODE_PORTS})
