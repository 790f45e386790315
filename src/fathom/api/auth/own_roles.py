"""The roles of fathom's own accounts, and rules of earlier versions that are to be removed.

Named verbs on named resources: everything that a fathom process does is listed here, line by line, and any
other request is refused. In the form of `bootstrap`'s table.
"""

from __future__ import annotations

from fathom.model.accounts import CONTROLLERS, GATEWAY, SCALE_ROLE, SCHEDULER, SYSTEM_NAMESPACE

Row = tuple[str, ...]
Subject = tuple[str, str]  # kind, name

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
EVENTS: Row = ("create patch update", "- events.k8s.io", "events")

ASK: tuple[Row, ...] = (
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
)

LEASES, SETTINGS = "system:fathom:leases", "system:fathom:settings"
SIGNS_OF_LIFE = "system:fathom:signs-of-life"
MEASURED = "system:fathom:measured"

# Signals that a component publishes about itself, for other components to read.
SIGNALS: tuple[Row, ...] = (
    (READ, "fathom.dev", "componentsignals"),
    ("create", "fathom.dev", "componentsignals"),
    ("patch", "fathom.dev", "componentsignals/status"),
)

OWN_ROLES: dict[str, tuple[Row, ...]] = {
    SCHEDULER: (
        (READ, "-", "namespaces nodes persistentvolumeclaims persistentvolumes pods"),
        (READ, "policy", "poddisruptionbudgets"),
        (
            READ,
            "fathom.dev",
            "capacityclasses policyrollouts reservations scheduleroverrides schedulingpolicies tenantquotas",
        ),
        EVENTS,
        ("create", "-", "bindings pods/binding"),
        ("create", "fathom.dev", "bindingbatches"),
        ("delete", "-", "pods"),  # Preemption.
        ("patch", "-", "pods/status"),
        ("create delete patch", "fathom.dev", "reservations"),
        ("patch", "fathom.dev", "policyrollouts/status scheduleroverrides/status"),
        *SIGNALS,
    ),
    CONTROLLERS: (
        (READ, "-", "endpoints namespaces nodes pods services"),
        (READ, "apps", "deployments replicasets"),
        (READ, "autoscaling", "horizontalpodautoscalers"),
        (READ, "batch", "jobs"),
        (READ, "discovery.k8s.io", "endpointslices"),
        (READ, "policy", "poddisruptionbudgets"),
        (
            READ,
            "fathom.dev",
            "capacityclasses policyrollouts repairproposals reservations scheduleroverrides"
            " schedulingpolicies trafficroutes workloadprogresses",
        ),
        ("get list", "metrics.k8s.io", "pods"),
        ("get", "fathom.dev", "nodeconnections"),
        *SIGNALS,
        EVENTS,
        ("create delete patch", "-", "pods"),
        ("patch", "-", "nodes nodes/status pods/status"),
        ("create patch", "-", "endpoints"),
        ("create delete patch", "discovery.k8s.io", "endpointslices"),
        ("patch", "apps", "deployments deployments/status replicasets/status"),
        ("create delete patch", "apps", "replicasets"),
        ("delete patch", "batch", "jobs"),
        ("patch", "batch", "jobs/status"),
        ("patch", "autoscaling", "horizontalpodautoscalers/status"),
        ("patch", "policy", "poddisruptionbudgets/status"),
        ("get patch", "-", "replicationcontrollers/scale"),
        ("get patch", "apps", "statefulsets/scale"),
        ("create delete", "fathom.dev", "repairproposals workloadprogresses"),
        ("delete patch", "fathom.dev", "reservations"),
        (
            "patch",
            "fathom.dev",
            "policyrollouts/status repairproposals/status reservations/status workloadprogresses/status",
        ),
        # Overrides: their status and finalizer, what they drain and shift, and what was made under them.
        ("patch", "fathom.dev", "scheduleroverrides scheduleroverrides/status"),
        ("create", "-", "pods/eviction"),
        ("create delete patch", "fathom.dev", "trafficroutes"),
        ("list", "-", "serviceaccounts"),
        ("list", "rbac.authorization.k8s.io", "clusterrolebindings rolebindings roles"),
        ("get list", "rbac.authorization.k8s.io", "clusterroles"),
        # Pods are created as their workload's template says; permission to name the tenant was checked when
        # the workload was written.
        ("use", "fathom.dev", "tenantquotas"),
    ),
    GATEWAY: (
        (READ, "-", "nodes services"),
        (READ, "discovery.k8s.io", "endpointslices"),
        (READ, "fathom.dev", "trafficroutes"),
        ("patch", "-", "pods/status services/status"),
        ("patch", "fathom.dev", "trafficroutes/status"),
        EVENTS,
    ),
    # Agents need none of fathom's kinds; the role stays so that operators may add to it.
    "system:fathom:agent": (),
    LEASES: (("create get list patch update", "coordination.k8s.io", "leases"),),
    SETTINGS: ((READ, "-", "configmaps"), ("create patch", "-", "configmaps")),  # The brake on nodes.
    SIGNS_OF_LIFE: ((READ, "coordination.k8s.io", "leases"),),
    MEASURED: (("create get patch", "discovery.k8s.io", "endpointslices"),),  # Addresses of metrics.
    SCALE_ROLE: (),  # Filled by `controllers.autoscaler.scale_rights`.
}

OWN_BINDINGS: dict[str, tuple[Subject, ...]] = {
    SCHEDULER: (("User", SCHEDULER),),
    CONTROLLERS: (("User", CONTROLLERS),),
    GATEWAY: (("User", GATEWAY),),
    "system:fathom:agent": (("Group", "system:nodes"),),
    SCALE_ROLE: (("User", CONTROLLERS),),
}

# Role -> its namespace and subjects, by a RoleBinding of the same name.
OWN_LOCAL_BINDINGS: dict[str, tuple[str, tuple[Subject, ...]]] = {
    LEASES: (SYSTEM_NAMESPACE, (("User", SCHEDULER), ("User", CONTROLLERS))),
    SETTINGS: (SYSTEM_NAMESPACE, (("User", CONTROLLERS),)),
    MEASURED: (SYSTEM_NAMESPACE, (("User", SCHEDULER), ("User", CONTROLLERS), ("User", GATEWAY))),
    SIGNS_OF_LIFE: ("kube-node-lease", (("User", CONTROLLERS),)),
}

# Rules that earlier versions granted by mistake: removed at the start, rule by rule.
RETIRED: dict[str, tuple[Row, ...]] = {
    SCHEDULER: (
        *ASK,
        (READ, "*", "*"),
        ("patch update", "-", "pods pods/status"),
        ("create patch update delete", "coordination.k8s.io", "leases"),
        ("*", "fathom.dev", "*"),
    ),
    CONTROLLERS: (
        *ASK,
        ("get list watch delete deletecollection patch update", "*", "*"),
        (
            "create",
            "-",
            "configmaps endpoints persistentvolumeclaims pods pods/binding pods/eviction serviceaccounts"
            " serviceaccounts/token",
        ),
        ("create", "apps", "controllerrevisions replicasets"),
        ("create", "batch", "jobs"),
        ("create", "coordination.k8s.io", "leases"),
        ("*", "fathom.dev", "*"),
    ),
    GATEWAY: ((READ, "-", "services nodes pods"), ("patch", "-", "pods/status services/status")),
    "system:fathom:agent": ((READ, "fathom.dev", "*"),),
    "system:aggregate-to-edit": ((WRITE, "fathom.dev", "reservations trafficroutes workloadprogresses"),),
    "system:aggregate-to-admin": ((WRITE, "fathom.dev", "repairproposals scheduleroverrides"),),
}
