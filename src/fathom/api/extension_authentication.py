"""The kube-system config map from which extension API servers learn whom to trust, and its readers' binding.

A client shows a certificate of the cluster's CA. A proxy in front of extension API servers, if there is one,
shows a certificate of another CA and names in headers the user on whose behalf it asks. Pure; `serve` writes
it.
"""

from __future__ import annotations

from fathom.model.body import encode_json
from fathom.model.objects import Obj
from fathom.model.resource_names import RBAC_GROUP

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
READER = "extension-apiserver-authentication-reader"
FRONT_PROXY = "front-proxy-client"  # kubeadm's name for it.
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def config_map(client_ca: str, front_proxy_ca: str) -> Obj:
    headers = {
        "requestheader-allowed-names": [FRONT_PROXY],
        "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
        "requestheader-group-headers": ["X-Remote-Group"],
        "requestheader-uid-headers": ["X-Remote-Uid"],
        "requestheader-username-headers": ["X-Remote-User"],
    }
    data = {name: encode_json(value).decode() for name, value in headers.items()}
    data |= {"client-ca-file": client_ca, "requestheader-client-ca-file": front_proxy_ca}
    return _object("v1", "ConfigMap", NAME, data=data)


def reader_role() -> Obj:
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [NAME],
        "verbs": ["get", "list", "watch"],
    }
    return _object(f"{RBAC_GROUP}/v1", "Role", READER, LABELS, rules=[rule])


def reader_binding() -> Obj:
    """For Kubernetes' own components, which serve metrics and ask who may read them."""
    users = ("system:kube-controller-manager", "system:kube-scheduler")
    return _object(
        f"{RBAC_GROUP}/v1",
        "RoleBinding",
        f"system::{READER}",
        LABELS,
        roleRef={"apiGroup": RBAC_GROUP, "kind": "Role", "name": READER},
        subjects=[{"apiGroup": RBAC_GROUP, "kind": "User", "name": user} for user in users],
    )


def _object(
    api_version: str, kind: str, name: str, labels: dict[str, str] | None = None, **parts: object
) -> Obj:
    meta = {"name": name, "namespace": NAMESPACE, **({"labels": labels} if labels else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **parts}


def put_right(current: Obj | None, wanted: Obj) -> Obj | None:
    """What to write: the wanted object on top of the existing one. None if nothing would change."""
    if current is None:
        return wanted
    parts = {name: part for name, part in wanted.items() if name not in {"metadata", "kind", "apiVersion"}}
    return None if all(current.get(name) == part for name, part in parts.items()) else {**current, **parts}
