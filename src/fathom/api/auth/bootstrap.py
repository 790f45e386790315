"""The objects of a new cluster: namespaces, and the roles and bindings known from Kubernetes.

A role is a row of the table: (verbs, API groups, resources[, names]), each a line of words; '-' is the core
group. A rule for paths is (verbs, paths).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import fields

from fathom.api.auth.own_roles import (
    ASK,
    EVENTS,
    OWN_BINDINGS,
    OWN_LOCAL_BINDINGS,
    OWN_ROLES,
    READ,
    RETIRED,
    WRITE,
    Row,
)
from fathom.api.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from fathom.api.auth.rules import RbacRule, as_wire, rules_of, uncovered
from fathom.kinds.all import KINDS
from fathom.kinds.definition import KindDefinition
from fathom.kinds.override_changes import ADMIN_VERBS
from fathom.kinds.override_preview import FORK_VERB, STATES
from fathom.kinds.shape import API_VERSION
from fathom.kinds.shape import GROUP as OWN_GROUP
from fathom.kinds.steering_limits import LIMITS_KEY, STEERING_LIMITS, SteeringLimitsSpec
from fathom.model.accounts import BOOTSTRAPPERS, NODE_BOOTSTRAPPER, PREFIX, SYSTEM_NAMESPACE
from fathom.model.objects import Obj, key_of, metadata
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.view import View
from fathom.model.well_known import AUTO_UPDATE_ANNOTATION

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "fathom-system")

ALL_VERBS = "create delete deletecollection get list patch update watch"

# Aggregation: the roles that carry the label `aggregate-to-X` make up X, and each X is part of the next.
AGGREGATED = {"view": "edit", "edit": "admin", "admin": ""}

_READ = tuple(kind for kind in KINDS if kind.view_role_reads)


def _names(kinds: Iterable[KindDefinition], *endings: str) -> str:
    """The resources of kinds for a row, each with every ending ('/status') that it has."""
    return " ".join(
        f"{kind.plural}{ending}"
        for kind in sorted(kinds, key=lambda kind: kind.plural)
        for ending in endings or ("",)
        if not ending or ending.removeprefix("/") in kind.subresources
    )


def _with_status(kinds: Iterable[KindDefinition]) -> str:
    reported = (kind for kind in kinds if "status" in kind.subresources)
    return _names(reported, "/status")


ROLES: dict[str, tuple[Row, ...]] = {
    "cluster-admin": (("*", "*", "*"), ("*", "*")),
    "system:discovery": (
        (
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
        ),
    ),
    "system:public-info-viewer": (("get", "/healthz /livez /readyz /version /version/"),),
    "system:monitoring": (
        (
            "get",
            "/healthz /healthz/* /livez /livez/* /metrics /metrics/* /readyz /readyz/*",
        ),
    ),
    "system:service-account-issuer-discovery": (
        ("get", "/.well-known/openid-configuration /openid/v1/jwks"),
    ),
    "system:basic-user": (
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        ("create", "authentication.k8s.io", "selfsubjectreviews"),
        # Whoever may get an object may ask about it: that is checked for each question.
        ("create list", OWN_GROUP, _names(kind for kind in KINDS if kind.asks)),
        ("get", OWN_GROUP, _names(kind for kind in KINDS if kind.asks)),
        ("get", OWN_GROUP, "steeringlimits", LIMITS_KEY.name),  # What an override must keep to.
    ),
    "system:auth-delegator": ASK,
    # Bound to no subject. A fork tells about all namespaces; contents of Secrets are not in it.
    "system:fathom:previewer": ((FORK_VERB, OWN_GROUP, STATES),),
    "system:aggregate-to-admin": (
        ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        (ALL_VERBS, "rbac.authorization.k8s.io", "rolebindings roles"),
        # Permission to steer is separate from permission to deploy. Status is written by the controllers that
        # observe it.
        (WRITE, OWN_GROUP, _names(kind for kind in KINDS if kind.admin_role_writes)),
        (" ".join(ADMIN_VERBS), OWN_GROUP, "scheduleroverrides"),
        (
            "get patch update",
            OWN_GROUP,
            _names((kind for kind in KINDS if kind.approval), "/approval"),
        ),
        (
            "get patch update",
            OWN_GROUP,
            _names((kind for kind in KINDS if kind.admin_role_writes_status), "/status"),
        ),
    ),
    "system:aggregate-to-edit": (
        (READ, "-", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
        ("impersonate", "-", "serviceaccounts"),
        (WRITE, "-", "pods pods/attach pods/exec pods/portforward pods/proxy"),
        ("create", "-", "pods/eviction"),
        (
            WRITE,
            "-",
            "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale"
            " secrets serviceaccounts services services/proxy",
        ),
        ("create", "-", "serviceaccounts/token"),
        (
            WRITE,
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale"
            " statefulsets statefulsets/scale",
        ),
        (WRITE, "autoscaling", "horizontalpodautoscalers"),
        (WRITE, "batch", "cronjobs jobs"),
        (
            WRITE,
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies"
            " replicasets replicasets/scale replicationcontrollers/scale",
        ),
        (WRITE, "policy", "poddisruptionbudgets"),
        (WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        (ALL_VERBS, "coordination.k8s.io", "leases"),
        (WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ),
    "system:aggregate-to-view": (
        (
            READ,
            "-",
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods"
            " replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
        ),
        (
            READ,
            "-",
            "bindings events limitranges namespaces/status pods/log pods/status"
            " replicationcontrollers/status resourcequotas resourcequotas/status",
        ),
        (READ, "-", "namespaces"),
        (READ, "discovery.k8s.io", "endpointslices"),
        (
            READ,
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale"
            " deployments/status replicasets replicasets/scale replicasets/status statefulsets"
            " statefulsets/scale statefulsets/status",
        ),
        (READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        (READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        (
            READ,
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses"
            " ingresses/status networkpolicies replicasets replicasets/scale replicasets/status"
            " replicationcontrollers/scale",
        ),
        ("get list", "metrics.k8s.io", "nodes pods"),
        (READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        (READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        (READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
        (READ, OWN_GROUP, _names(kind for kind in _READ if kind.namespaced and kind.stored)),
        (READ, OWN_GROUP, _with_status(kind for kind in _READ if kind.namespaced)),
        ("create get list", OWN_GROUP, _names(kind for kind in _READ if kind.asks)),
        # Users that deploy a pod ask why it is pending.
        (READ, OWN_GROUP, _names(kind for kind in _READ if not kind.namespaced)),
    ),
    # Bound to no subject: nodes get this from the node authorizer, which also checks whose pods are
    # requested.
    "system:node": (
        *ASK,
        ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        (READ, "-", "services endpoints"),
        (READ, "discovery.k8s.io", "endpointslices"),
        ("create get list watch patch update", "-", "nodes"),
        ("patch update", "-", "nodes/status pods/status"),
        EVENTS,
        ("create delete get list watch", "-", "pods"),
        ("create", "-", "pods/eviction serviceaccounts/token"),
        (READ, "-", "configmaps secrets"),
        ("get", "-", "persistentvolumeclaims persistentvolumes"),
        ("get patch update", "-", "persistentvolumeclaims/status"),
        ("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
        ("create delete get patch update", "coordination.k8s.io", "leases"),
        ("get", "storage.k8s.io", "volumeattachments"),
        (READ, "storage.k8s.io", "csidrivers"),
        ("create delete get patch update", "storage.k8s.io", "csinodes"),
        (READ, "node.k8s.io", "runtimeclasses"),
    ),
    "system:node-bootstrapper": (
        ("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    ),
    "system:node-problem-detector": (("get", "-", "nodes"), ("patch", "-", "nodes/status"), EVENTS),
    "system:kube-scheduler": (
        EVENTS,
        ("create", "coordination.k8s.io", "leases"),
        ("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
        (READ, "-", "nodes namespaces replicationcontrollers services"),
        ("delete get list watch", "-", "pods"),
        ("create", "-", "bindings pods/binding"),
        ("patch update", "-", "pods/status"),
        (READ, "apps extensions", "replicasets"),
        (READ, "apps", "statefulsets"),
        (READ, "policy", "poddisruptionbudgets"),
        (READ, "-", "persistentvolumeclaims persistentvolumes"),
        *ASK,
        (READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities"),
    ),
    "system:volume-scheduler": (
        ("get list patch update watch", "-", "persistentvolumes persistentvolumeclaims"),
        (READ, "storage.k8s.io", "storageclasses"),
    ),
    "system:kube-controller-manager": (
        EVENTS,
        ("create", "coordination.k8s.io", "leases"),
        ("get list update watch", "coordination.k8s.io", "leases", "kube-controller-manager"),
        ("create", "-", "secrets serviceaccounts"),
        ("delete", "-", "secrets"),
        ("get", "-", "configmaps namespaces secrets serviceaccounts"),
        ("update", "-", "secrets serviceaccounts"),
        *ASK,
        ("list watch", "*", "*"),
        ("create", "-", "serviceaccounts/token"),
    ),
    **OWN_ROLES,
}

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"

# Role -> (kind, name) of its subjects, by a ClusterRoleBinding of the same name.
BINDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "cluster-admin": (("Group", "system:masters"),),
    "system:discovery": (("Group", AUTHENTICATED),),
    "system:basic-user": (("Group", AUTHENTICATED),),
    "system:public-info-viewer": (("Group", AUTHENTICATED), ("Group", UNAUTHENTICATED)),
    "system:monitoring": (("Group", "system:monitoring"),),
    "system:service-account-issuer-discovery": (("Group", "system:serviceaccounts"),),
    "system:node-bootstrapper": (("Group", BOOTSTRAPPERS), ("User", NODE_BOOTSTRAPPER)),
    "system:kube-scheduler": (("User", "system:kube-scheduler"),),
    "system:volume-scheduler": (("User", "system:kube-scheduler"),),
    "system:kube-controller-manager": (("User", "system:kube-controller-manager"),),
    **OWN_BINDINGS,
}

AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def bootstrap_objects() -> list[Obj]:
    """All bootstrap objects, in an order in which they can be created."""
    return [
        *(_namespace(name) for name in NAMESPACES),
        *(_role(name, [_rule(row) for row in rows]) for name, rows in ROLES.items()),
        *(_aggregated_role(name) for name in AGGREGATED),
        *(_binding(name, subjects) for name, subjects in BINDINGS.items()),
        *(_binding(name, subjects, where) for name, (where, subjects) in OWN_LOCAL_BINDINGS.items()),
        _steering_limits(),
    ]


def plan_bootstrap(view: View, *, own: bool = True) -> list[Obj]:
    """The objects to write so that the cluster has all bootstrap objects: missing ones, and those of earlier
    versions that lack a rule or a subject. Only rules that an earlier version should not have granted are
    removed. An object whose autoupdate annotation is false is left alone. `own` False: without fathom's."""
    objects = [obj for obj in bootstrap_objects() if own or not _is_own(obj)]
    return [obj for wanted in objects if (obj := _repaired(wanted, view)) is not None]


def _is_own(obj: Obj) -> bool:
    key = key_of(obj)
    return SYSTEM_NAMESPACE in key or key.name.startswith(PREFIX) or obj["kind"] == "SteeringLimits"


def _repaired(wanted: Obj, view: View) -> Obj | None:
    resource = {
        "Namespace": "namespaces",
        "ClusterRole": CLUSTER_ROLES,
        "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
        "RoleBinding": ROLE_BINDINGS,
        "SteeringLimits": STEERING_LIMITS,
    }[wanted["kind"]]
    seen = view.get(resource, key_of(wanted))
    if seen is None:
        return wanted
    stored = seen.obj
    annotations = metadata(stored).get("annotations") or {}
    if annotations.get(AUTO_UPDATE_ANNOTATION) != "true" or stored.get("aggregationRule"):
        return None
    if wanted["kind"] == "ClusterRole":
        return None if stored.get("rules") == wanted["rules"] else _repaired_role(wanted, stored)
    subjects = stored.get("subjects") or []
    return _extended(
        stored, "subjects", [subject for subject in wanted["subjects"] if subject not in subjects]
    )


def _repaired_role(wanted: Obj, stored: Obj) -> Obj | None:
    retired = [as_wire(_rule(row)) for row in RETIRED.get(metadata(wanted)["name"], ())]
    kept = [rule for rule in stored.get("rules") or () if rule not in retired or rule in wanted["rules"]]
    missing = [as_wire(rule) for rule in uncovered(rules_of(kept), rules_of(wanted["rules"])) or ()]
    rules = [*kept, *missing]
    return None if rules == stored.get("rules") else {**stored, "rules": rules}


def _extended(stored: Obj, field: str, missing: list[Obj]) -> Obj | None:
    return {**stored, field: [*(stored.get(field) or ()), *missing]} if missing else None


def _rule(row: Row) -> RbacRule:
    if len(row) == 2:
        return RbacRule(verbs=tuple(row[0].split()), urls=tuple(row[1].split()))
    return RbacRule(
        verbs=tuple(row[0].split()),
        groups=tuple("" if group == "-" else group for group in row[1].split()),
        resources=tuple(row[2].split()),
        names=tuple(row[3].split()) if len(row) > 3 else (),
    )


def _meta(name: str, labels: dict[str, str] | None = None) -> Obj:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
        "annotations": {AUTO_UPDATE_ANNOTATION: "true"},
    }


def _role(name: str, rules: list[RbacRule]) -> Obj:
    part_of = name.removeprefix("system:aggregate-to-")
    labels = {f"{AGGREGATE}{part_of}": "true"} if part_of != name else {}
    return {
        "kind": "ClusterRole",
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": _meta(name, labels),
        "rules": [as_wire(rule) for rule in rules],
    }


def _aggregated_role(name: str) -> Obj:
    """Its rules field shows the aggregated rules at the start; the authorizer aggregates anew."""
    outer = AGGREGATED[name]
    parts = [name]
    while (inner := {outer: inner for inner, outer in AGGREGATED.items()}.get(parts[-1])) is not None:
        parts.append(inner)
    rules = [_rule(row) for part in parts for row in ROLES[f"system:aggregate-to-{part}"]]
    return {
        "kind": "ClusterRole",
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": _meta(name, {f"{AGGREGATE}{outer}": "true"} if outer else {}),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]},
        "rules": [as_wire(rule) for rule in rules],
    }


def _binding(role: str, subjects: tuple[tuple[str, str], ...], namespace: str = "") -> Obj:
    """Cluster-wide, or in the namespace only."""
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": {**_meta(role), **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": kind, "apiGroup": RBAC_GROUP, "name": name} for kind, name in subjects],
    }


def _namespace(name: str) -> Obj:
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _steering_limits() -> Obj:
    """The defaults in full, so that anybody can read what is in force. Changed ones are left alone."""
    limits = SteeringLimitsSpec()
    spec = {field.encode_name: getattr(limits, field.name) for field in fields(limits)}
    return {
        "kind": "SteeringLimits",
        "apiVersion": API_VERSION,
        "metadata": {"namespace": LIMITS_KEY.namespace, "name": LIMITS_KEY.name},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
