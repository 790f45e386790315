"""Table columns of volumes, claims, classes and CSI's kinds."""

from __future__ import annotations

from fathom.kube.columns.texts import UNSET, items, part, text
from fathom.model.objects import Obj, is_deleting, metadata

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def pvc_capacity(obj: Obj, now_ns: int) -> str:
    if not text(obj, "spec", "volumeName"):
        return ""
    return text(obj, "status", "capacity", "storage", missing="0")


def access_modes(obj: Obj, now_ns: int) -> str:
    """A claim shows the modes of its volume: none before it is bound."""
    section = "status" if obj.get("kind") == "PersistentVolumeClaim" else "spec"
    if section == "status" and not text(obj, "spec", "volumeName"):
        return ""
    modes = items(obj, section, "accessModes")
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def volume_status(obj: Obj, now_ns: int) -> str:
    return "Terminating" if is_deleting(obj) else text(obj, "status", "phase")


def pv_claim(obj: Obj, now_ns: int) -> str:
    claim = part(obj, "spec", "claimRef")
    return f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else ""


def storage_class(obj: Obj, now_ns: int) -> str:
    annotations = metadata(obj).get("annotations") or {}
    return str(annotations.get(_OLD_CLASS) or text(obj, "spec", "storageClassName"))


def storage_class_name(obj: Obj, now_ns: int) -> str:
    annotations = metadata(obj).get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _IS_DEFAULT)
    return f"{metadata(obj).get('name', '')}{' (default)' if default else ''}"


def csi_drivers(obj: Obj, now_ns: int) -> int:
    return len(items(obj, "spec", "drivers"))


def csi_token_requests(obj: Obj, now_ns: int) -> str:
    if "tokenRequests" not in part(obj, "spec"):
        return UNSET
    return ",".join(text(request, "audience") for request in items(obj, "spec", "tokenRequests"))
