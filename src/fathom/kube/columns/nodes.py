"""Table columns of nodes."""

from __future__ import annotations

from fathom.kube.columns.texts import NONE, UNKNOWN, condition, items, part, text
from fathom.model.objects import Obj, labels_of

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def node_status(node: Obj, now_ns: int) -> str:
    ready = condition(node, "Ready").get("status")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if part(node, "spec").get("unschedulable") else status


def node_roles(node: Obj, now_ns: int) -> str:
    roles = set()
    for key, value in labels_of(node).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE:
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _address(node: Obj, kind: str) -> str:
    for address in items(node, "status", "addresses"):
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE


def node_kernel(node: Obj, now_ns: int) -> str:
    kernel = text(node, "status", "nodeInfo", "kernelVersion", missing=UNKNOWN)
    architecture = text(node, "status", "nodeInfo", "architecture")
    return f"{kernel} ({architecture})" if architecture else kernel
