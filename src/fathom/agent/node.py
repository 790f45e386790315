"""The Node object and its Lease as the agent writes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.agent.addresses import node_address
from fathom.agent.settings import AgentSettings
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Obj, labels_of, metadata, uid_of
from fathom.model.well_known import (
    CERTIFICATE_ANNOTATION,
    DRIVER_LABEL,
    HOSTNAME_LABEL,
    NODE_LEASE_NAMESPACE,
    REGION_LABEL,
    ZONE_LABEL,
)

NOTICE = "fathom.dev/agent-notice"
VERSION = "v1.37.0+fathom"  # The Kubernetes version whose behaviour clients may expect.

CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}

# Conditions that kubelet reports besides Ready. We measure no pressure, so they are constant.
_NO_PRESSURE = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


# 'eu-west-a', 'europe-west1-b', 'us-east-1a': the region has a hyphen itself, and the zone adds a letter or
# a number to it.
_ZONE = re.compile(r"(?P<region>[^-]+-.*?)(-[a-z0-9]|-[0-9]+|(?<=[0-9])[a-z])")
NO_REGION = "local"


def region_of(zone: str) -> str:
    """The region of a zone that is named as clouds name theirs; 'local' for other names."""
    named = _ZONE.fullmatch(zone)
    return named["region"] if named is not None else NO_REGION


def address_of(settings: AgentSettings) -> str:
    return settings.address or node_address(settings.pod_range)


def node_labels(settings: AgentSettings) -> dict[str, str]:
    topology = {ZONE_LABEL: settings.zone, REGION_LABEL: settings.region}
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": settings.facts.get("architecture", "amd64"),
        HOSTNAME_LABEL: settings.node,
        **{name: value for name, value in topology.items() if value},
        **({DRIVER_LABEL: settings.driver} if settings.driver == "simulated" else {}),
        **settings.labels,
    }


def node_annotations(settings: AgentSettings) -> dict[str, str | None]:
    return {CERTIFICATE_ANNOTATION: settings.certificate or None, NOTICE: settings.notice or None}


def new_node(settings: AgentSettings, now: str) -> Obj:
    annotations = {name: text for name, text in node_annotations(settings).items() if text}
    node: Obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": settings.node, "labels": node_labels(settings), "annotations": annotations},
        "spec": {"podCIDR": f"{settings.pod_range}.0/24", "podCIDRs": [f"{settings.pod_range}.0/24"]},
    }
    return {**node, "status": node_status(settings, node, now)}


def node_patch(settings: AgentSettings, node: Obj) -> Obj | None:
    """A patch with the labels and annotations that an existing node lacks; None: it lacks none. Labels that
    users and controllers have put on it stay."""
    if settings.takes_over:
        return None
    labels, annotations = labels_of(node), metadata(node).get("annotations") or {}
    wanted = {name: text for name, text in node_labels(settings).items() if labels.get(name) != text}
    noted = {name: text for name, text in node_annotations(settings).items() if annotations.get(name) != text}
    patch = {**({"labels": wanted} if wanted else {}), **({"annotations": noted} if noted else {})}
    return {"metadata": patch} if patch else None


def node_status(settings: AgentSettings, node: Obj, now: str) -> Obj:
    """The whole status; conditions are merged into the existing ones."""
    if settings.takes_over and node.get("status"):
        return {**node["status"], "conditions": _with_heartbeats(conditions_of(node), now)}
    capacity = {**CAPACITY, **settings.capacity}
    return {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            {"type": "InternalIP", "address": address_of(settings)},
            {"type": "Hostname", "address": settings.node},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.port}},
        "nodeInfo": _info(settings),
        "conditions": _conditions(node, now, settings.notice),
    }


def _info(settings: AgentSettings) -> Obj:
    facts = settings.facts
    return {
        "machineID": facts.get("machine", ""),
        "systemUUID": facts.get("machine", ""),
        "bootID": facts.get("boot", ""),
        "kernelVersion": facts.get("kernel", ""),
        "osImage": facts.get("os", settings.driver),
        "containerRuntimeVersion": f"{settings.driver}://1",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": VERSION,
        "operatingSystem": "linux",
        "architecture": facts.get("architecture", "amd64"),
    }


def _conditions(node: Obj, now: str, notice: str) -> list[Obj]:
    conditions = conditions_of(node)
    ready = f"kubelet is posting ready status{'; ' + notice if notice else ''}"
    for type_, status, reason, message in (
        *((name, "False", reason, text) for name, reason, text in _NO_PRESSURE),
        ("Ready", "True", "KubeletReady", ready),
    ):
        conditions = set_condition(
            conditions, type=type_, status=status, reason=reason, message=message, now=now  # type: ignore[arg-type]  # one of two words
        )  # fmt: skip
    return _with_heartbeats(conditions, now)


def _with_heartbeats(conditions: Sequence[Obj], now: str) -> list[Obj]:
    ours = {"Ready", *(name for name, _, _ in _NO_PRESSURE)}
    return [
        {**condition, "lastHeartbeatTime": now} if condition.get("type") in ours else condition
        for condition in conditions
    ]


def status_changed(before: Obj, after: Obj) -> bool:
    """Whether the status differs in anything but the heartbeat time."""
    return _timeless(before) != _timeless(after)


def _timeless(status: Obj) -> Obj:
    conditions = [
        {name: value for name, value in condition.items() if name != "lastHeartbeatTime"}
        for condition in status.get("conditions") or ()
    ]
    fields = ("capacity", "allocatable", "addresses", "daemonEndpoints", "nodeInfo")
    return {**{name: status.get(name) for name in fields}, "conditions": conditions}


def lease_of(settings: AgentSettings, node: Obj | None, now_micro: str) -> Obj:
    meta: Obj = {"name": settings.node, "namespace": NODE_LEASE_NAMESPACE}
    if node is not None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": settings.node, "uid": uid_of(node)}
        meta["ownerReferences"] = [owner]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": meta,
        "spec": {
            "holderIdentity": settings.node,
            "leaseDurationSeconds": settings.lease_s,
            "renewTime": now_micro,
        },
    }
