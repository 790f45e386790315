"""The service account volume of a pod: token, CA and namespace, where Kubernetes' clients look for them.

kube-apiserver writes this volume into every pod's spec. Here the agent adds it when it starts a container:
the same files at the same place, without a copy of it in each of a million pods.
"""

from __future__ import annotations

import ssl

from fathom.model.objects import Obj, lookup

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME = "kube-api-access"
ROOT_CA = "kube-root-ca.crt"


def with_account(pod: Obj) -> Obj:
    """The pod with the volume added. Containers that mount something at that path keep it."""
    spec = pod.get("spec") or {}
    if spec.get("automountServiceAccountToken") is False or any(map(_is_ours, spec.get("volumes") or ())):
        return pod
    changed = {
        field: [_mounting(container) for container in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    return {**pod, "spec": {**spec, **changed, "volumes": [*(spec.get("volumes") or ()), _volume()]}}


def root_ca(tls: ssl.SSLContext) -> Obj:
    """The ConfigMap that Kubernetes has in every namespace, from the CAs that the agent itself trusts."""
    certificates = (ssl.DER_cert_to_PEM_cert(der) for der in tls.get_ca_certs(binary_form=True))
    return {"metadata": {"name": ROOT_CA}, "data": {"ca.crt": "".join(certificates)}}


def _is_ours(volume: Obj) -> bool:
    """Whether the pod has this volume already; Kubernetes adds a suffix to its name."""
    name = str(volume.get("name") or "")
    return name.startswith(VOLUME) and bool(lookup(volume, "projected", "sources"))


def _mounting(container: Obj) -> Obj:
    mounts = container.get("volumeMounts") or ()
    if any(str(mount.get("mountPath") or "").rstrip("/") == PLACE for mount in mounts):
        return container
    ours = {"name": VOLUME, "mountPath": PLACE, "readOnly": True}
    return {**container, "volumeMounts": [*mounts, ours]}


def _volume() -> Obj:
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": VOLUME, "projected": {"sources": sources}}
