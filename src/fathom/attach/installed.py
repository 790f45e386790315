"""The objects that `fathom attach` installs: a namespace, a service account, roles of its rights; to
schedule, what overrides need (`steering.py`); for kubectl, an APIService (`ask_objects.py`). Pure."""

from __future__ import annotations

from fathom.attach.ask_objects import AskAddress, ask_objects
from fathom.attach.kinds import MIRRORED
from fathom.attach.rights import observing, rules_of, scheduling
from fathom.attach.steering import steering_objects
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Obj
from fathom.model.resource_names import RBAC_GROUP

MANAGED_BY, OURS = "app.kubernetes.io/managed-by", "fathom-attach"
LABELS = {"app.kubernetes.io/name": "fathom", MANAGED_BY: OURS}
SELECTOR = f"{MANAGED_BY}={OURS}"
ACCOUNT = "fathom"
OBSERVER, SCHEDULER = "fathom-observer", "fathom-scheduler"


def objects_to_install(*, observe_only: bool, ask_api: AskAddress | None = None) -> list[Obj]:
    """In an order in which they can be created."""
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(SYSTEM_NAMESPACE)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(ACCOUNT, SYSTEM_NAMESPACE)},
        *_cluster_role(OBSERVER, rules_of(observing())),
    ]
    for namespace in sorted({namespace for kind in MIRRORED for namespace in kind.namespaces}):
        objects += _role(OBSERVER, namespace, rules_of(observing(), namespace))
    if not observe_only:
        objects += _cluster_role(SCHEDULER, rules_of(scheduling()))
        objects += _role(SCHEDULER, SYSTEM_NAMESPACE, rules_of(scheduling(), SYSTEM_NAMESPACE))
        objects += steering_objects(LABELS)
    if ask_api is not None:
        objects += ask_objects(ask_api, account=ACCOUNT, labels=LABELS)
    return objects


def _meta(name: str, namespace: str = "") -> Obj:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": dict(LABELS)}


def _cluster_role(name: str, rules: list[Obj]) -> list[Obj]:
    role = {"apiVersion": f"{RBAC_GROUP}/v1", "kind": "ClusterRole", "metadata": _meta(name), "rules": rules}
    binding = {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _meta(name),
        **_bound("ClusterRole", name),
    }
    return [role, binding]


def _role(name: str, namespace: str, rules: list[Obj]) -> list[Obj]:
    role = {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "Role",
        "metadata": _meta(name, namespace),
        "rules": rules,
    }
    binding = {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": _meta(name, namespace),
        **_bound("Role", name),
    }
    return [role, binding]


def _bound(kind: str, name: str) -> Obj:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}
    return {"roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}, "subjects": [subject]}
