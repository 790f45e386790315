"""A small cluster to judge over: objects in dictionaries, a clock that stands still, and short builders."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from fathom.api.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from fathom.api.request import Request, RequestTarget
from fathom.model.objects import Key, Obj, key_of
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.user import AUTHENTICATED, User
from fathom.model.view import Seen
from fathom.seams.outside import RandomIds

RESOURCES = {
    "Role": ROLES,
    "ClusterRole": CLUSTER_ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
    "Namespace": "namespaces",
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "Pod": "pods",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "SchedulerOverride": "scheduleroverrides.fathom.dev",
    "SteeringLimits": "steeringlimits.fathom.dev",
    "CapacityClass": "capacityclasses.fathom.dev",
    "RepairProposal": "repairproposals.fathom.dev",
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "Job": "jobs.batch",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
}

SECOND = 1_000_000_000


class StoppedClock:
    def __init__(self, now_s: int = 1_800_000_000) -> None:
        self.ns = now_s * SECOND

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ns(self) -> int:
        return self.ns

    def pass_s(self, seconds: float) -> None:
        self.ns += int(seconds * SECOND)


class Cluster:
    """A View. `reads` counts lists, so that a test can see what was remembered."""

    def __init__(self, *objects: Obj) -> None:
        self._objects: dict[str, dict[Key, Seen]] = {}
        self._revisions: dict[str, int] = {}
        self._revision = 1
        self.lists = 0
        self.add(*objects)

    def add(self, *objects: Obj) -> None:
        for obj in objects:
            self._revision += 1
            resource = RESOURCES[obj["kind"]]
            self._objects.setdefault(resource, {})[key_of(obj)] = Seen(obj, self._revision)
            self._revisions[resource] = self._revision

    def remove(self, obj: Obj) -> None:
        self._revision += 1
        resource = RESOURCES[obj["kind"]]
        del self._objects[resource][key_of(obj)]
        self._revisions[resource] = self._revision

    def get(self, resource: str, key: Key) -> Seen | None:
        return self._objects.get(resource, {}).get(key)

    def list(self, resource: str, namespace: str | None = None) -> Iterable[Seen]:
        self.lists += 1
        found = sorted(self._objects.get(resource, {}).items())
        return [seen for key, seen in found if namespace is None or key.namespace == namespace]

    def revision(self, resource: str) -> int:
        return self._revisions.get(resource, 0)


def ids() -> RandomIds:
    return RandomIds(random.Random(7))


def user(name: str = "jane", *groups: str) -> User:
    return User(name, (*groups, AUTHENTICATED))


def rule(
    verbs: str, resources: str = "", *, groups: Sequence[str] = ("",), names: str = "", urls: str = ""
) -> Obj:
    found: Obj = {"verbs": verbs.split()}
    if resources:
        found |= {"apiGroups": list(groups), "resources": resources.split()}
    if names:
        found["resourceNames"] = names.split()
    return {**found, "nonResourceURLs": urls.split()} if urls else found


def role(name: str, *rules: Obj, namespace: str = "default") -> Obj:
    return _object("Role", name, namespace, rules=list(rules))


def cluster_role(name: str, *rules: Obj, labels: dict[str, str] | None = None, gathers: str = "") -> Obj:
    found = _object("ClusterRole", name, "", rules=list(rules))
    if labels:
        found["metadata"]["labels"] = labels
    if gathers:
        found["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {gathers: "true"}}]}
    return found


def to_user(name: str) -> Obj:
    return {"kind": "User", "apiGroup": RBAC_GROUP, "name": name}


def to_group(name: str) -> Obj:
    return {"kind": "Group", "apiGroup": RBAC_GROUP, "name": name}


def to_account(name: str, namespace: str = "") -> Obj:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}


def binding(name: str, role_name: str, *subjects: Obj, namespace: str = "default", kind: str = "Role") -> Obj:
    ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": role_name}
    return _object("RoleBinding", name, namespace, roleRef=ref, subjects=list(subjects))


def cluster_binding(name: str, role_name: str, *subjects: Obj) -> Obj:
    ref = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role_name}
    return _object("ClusterRoleBinding", name, "", roleRef=ref, subjects=list(subjects))


def service_account(name: str, namespace: str = "default", uid: str = "sa-uid") -> Obj:
    return _object("ServiceAccount", name, namespace, uid=uid)


def secret(name: str, namespace: str = "default", uid: str = "secret-uid") -> Obj:
    return _object("Secret", name, namespace, uid=uid)


def node(name: str, uid: str = "node-uid", **spec: Any) -> Obj:
    return _object("Node", name, "", uid=uid, spec=spec)


def pod(name: str, *, on: str = "", namespace: str = "default", uid: str = "pod-uid", **spec: Any) -> Obj:
    bound = {"nodeName": on} if on else {}
    return _object("Pod", name, namespace, uid=uid, spec={**bound, **spec})


def _object(kind: str, name: str, namespace: str, *, uid: str = "", **fields: Any) -> Obj:
    in_group = kind in {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}
    meta: Obj = {"name": name}
    if namespace:
        meta["namespace"] = namespace
    if uid:
        meta["uid"] = uid
    return {"kind": kind, "apiVersion": f"{RBAC_GROUP}/v1" if in_group else "v1", "metadata": meta, **fields}


def target(
    verb: str, what: str, *, group: str = "", namespace: str = "default", name: str = ""
) -> RequestTarget:
    """`what` is 'pods', 'pods/log', or a path."""
    if what.startswith("/"):
        return RequestTarget(verb=verb, path=what)
    plural, _, subresource = what.partition("/")
    return RequestTarget(
        verb=verb,
        path="",
        group=group,
        version="v1",
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )


def request(path: str = "/api/v1/pods", *, certificate: bytes = b"", **headers: str) -> Request:
    return Request(method="GET", path=path, query={}, headers=headers, client_certificate=certificate)
