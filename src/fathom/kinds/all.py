"""The table of fathom's own kinds. A kind that is not in it is not served.

A new kind is a file of this package and a row here: docs/add-a-kind.md.
"""

from __future__ import annotations

from fathom.kinds import (
    binding_batch,
    capacity_class,
    component_signals,
    coupling,
    decision,
    explanation,
    node_connection,
    override_preview,
    override_review,
    policy_rollout,
    repair_proposal,
    reservation,
    scheduler_override,
    scheduling_policy,
    steering_limits,
    tenant_quota,
    timeline,
    traffic_route,
    workload_progress,
)
from fathom.kinds.definition import KindDefinition

# In the order in which discovery lists them.
KINDS: tuple[KindDefinition, ...] = (
    reservation.DEFINITION,
    tenant_quota.DEFINITION,
    capacity_class.DEFINITION,
    scheduling_policy.DEFINITION,
    policy_rollout.DEFINITION,
    scheduler_override.DEFINITION,
    steering_limits.DEFINITION,
    override_review.DEFINITION,
    workload_progress.DEFINITION,
    repair_proposal.DEFINITION,
    traffic_route.DEFINITION,
    component_signals.DEFINITION,
    binding_batch.DEFINITION,
    node_connection.DEFINITION,
    decision.DEFINITION,
    explanation.DEFINITION,
    override_preview.DEFINITION,
    timeline.DEFINITION,
    coupling.DEFINITION,
)
