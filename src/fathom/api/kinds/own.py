"""fathom's own kinds, in the group fathom.dev/v1alpha1: built in here, installed as CRDs elsewhere.

Only what code already reads or writes is here; DESIGN has the list that is to come.
"""

from __future__ import annotations

from fathom.api.kinds.kind import Kind
from fathom.api.kinds.own_capacity import CAPACITY_CLASS, RESERVATION, TENANT_QUOTA
from fathom.api.kinds.own_policy import POLICY_ROLLOUT, SCHEDULER_OVERRIDE, SCHEDULING_POLICY
from fathom.api.kinds.own_schema import TEXT, group, listed, one_of
from fathom.api.kinds.own_workloads import (
    COMPONENT_SIGNALS,
    REPAIR_PROPOSAL,
    TRAFFIC_ROUTE,
    WORKLOAD_PROGRESS,
)
from fathom.model.own.shape import GROUP, VERSION

# Many bindings in one request. It is answered, never stored: `api/subresources/binding.py`.
BINDING_BATCH = Kind(
    group=GROUP,
    version=VERSION,
    kind="BindingBatch",
    plural="bindingbatches",
    singular="bindingbatch",
    namespaced=False,
    list_kind="BindingBatchList",
    verbs=("create",),
    schema=group(
        apiVersion=TEXT,
        kind=TEXT,
        metadata={"type": "object"},
        items=listed({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, 1024),
    ),
)

# Whether the API server reaches a node, tried when asked. Never stored: `api/subresources/connection.py`.
NODE_CONNECTION = Kind(
    group=GROUP,
    version=VERSION,
    kind="NodeConnection",
    plural="nodeconnections",
    singular="nodeconnection",
    namespaced=False,
    list_kind="NodeConnectionList",
    verbs=("get",),
    schema=group(
        apiVersion=TEXT,
        kind=TEXT,
        metadata={"type": "object"},
        status=group(verdict=one_of("alive", "unsure", "gone", "unknown"), message=TEXT),
    ),
)

OWN_KINDS: tuple[Kind, ...] = (
    RESERVATION,
    TENANT_QUOTA,
    CAPACITY_CLASS,
    SCHEDULING_POLICY,
    POLICY_ROLLOUT,
    SCHEDULER_OVERRIDE,
    WORKLOAD_PROGRESS,
    REPAIR_PROPOSAL,
    TRAFFIC_ROUTE,
    COMPONENT_SIGNALS,
    BINDING_BATCH,
    NODE_CONNECTION,
)
