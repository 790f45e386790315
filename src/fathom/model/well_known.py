"""Labels, annotations, taints, finalizers, headers and namespaces that several packages read or write."""

from __future__ import annotations

# Labels of nodes.
ZONE_LABEL, REGION_LABEL = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
HOSTNAME_LABEL = "kubernetes.io/hostname"
POOL_LABEL = "fathom.dev/pool"
DRIVER_LABEL = "fathom.dev/driver"  # 'simulated': nothing listens on its pods' addresses.

# Labels of EndpointSlices and Endpoints.
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
SKIP_MIRROR_LABEL = "endpointslice.kubernetes.io/skip-mirror"

# Taints of nodes.
NOT_READY_TAINT, UNREACHABLE_TAINT = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
QUARANTINE_TAINT = "fathom.dev/quarantine"
SUSPECT_TAINT = "fathom.dev/suspect"  # Its agent sends no heartbeats.

# Annotations.
# On a bound pod: the id of the decision that placed it. On an Event: of the decision that it reports.
DECISION_ANNOTATION = "fathom.dev/decision"
BOOKMARK_ANNOTATION = "fathom.dev/bookmark-seconds"  # Where a WatchList ends: bookmarks come this often.
# On a bookmark: how long its watch had been open when all up to the bookmark was current. It may arrive much
# later. Negative: the server was not sure of anything later than that, before the watch was opened.
WATCH_AGE_ANNOTATION = "fathom.dev/watch-age-seconds"
EPOCH_ANNOTATION = "fathom.dev/epoch"  # On a Lease: how often its holder has changed.
CERTIFICATE_ANNOTATION = "fathom.dev/agent-certificate"  # On a Node: the certificate of the agent's endpoint.
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
AUTO_UPDATE_ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate"

# Finalizers.
JOB_TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"  # A pod that its Job has yet to count.
CUSTOM_OBJECTS_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

# Headers of requests.
FENCE_HEADER = "fathom-fence"  # The term that the writer believes it leads: 'namespace/lease/epoch'.
OVERRIDES_SEEN_HEADER = "fathom-overrides-seen"  # The revision of the overrides by which it was decided.
DECISION_HEADER = "fathom-decision"  # The recorded decision that the write carries out.
ACTOR_HEADER = "fathom-actor"  # The part of fathom that writes: 'controllers/deployment', 'agent/node-1'.

NODE_LEASE_NAMESPACE = "kube-node-lease"
# What `apply` declared last: a copy of the object. kubectl and fathom share it.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Priorities of pods and PriorityClasses that a user may set; those of the system are above.
USER_PRIORITY_MIN, USER_PRIORITY_MAX = -(2**31), 1_000_000_000
