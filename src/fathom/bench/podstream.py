"""Pods as a busy cluster has them, and the watch events that bring them: the same for everyone who is
measured.

A pod is some 2.3 KB as JSON. Fifty belong to a template; names, nodes, addresses and times are their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

NODES = 1000
PODS_PER_TEMPLATE = 50
NAMESPACES = 100
CHUNK_EVENTS = 500  # As many as fathom's server sends at once.

FIRST_REVISION = 1000

encode = msgspec.json.Encoder().encode


def pod(number: int, *, revision: int, phase: str = "Running") -> dict[str, Any]:
    template = number // PODS_PER_TEMPLATE
    second = number * 7919 % 20_000
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": _metadata(number, template, revision=revision, second=second),
        "spec": _spec(template, node=number % NODES),
        "status": _status(number, template, second=second, phase=phase),
    }


def _metadata(number: int, template: int, *, revision: int, second: int) -> dict[str, Any]:
    owner = {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "blockOwnerDeletion": True,
        "controller": True,
        "name": f"web-{template}",
        "uid": _uid(1, template),
    }
    return {
        "resourceVersion": str(revision),
        "labels": {"app": f"web-{template}", "pod-template-hash": f"{template:08x}"},
        "name": f"web-{template}-{number:07d}",
        "ownerReferences": [owner],
        "namespace": f"team-{template % NAMESPACES:02d}",
        "uid": _uid(2, number),
        "creationTimestamp": _time(second),
        "generation": 1,
    }


def _spec(template: int, *, node: int) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    container = {
        "name": "web",
        "image": f"registry.example/web:{template % 50}",
        "env": [{"name": "SERVICE", "value": f"web-{template}"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "readinessProbe": {**probe, "successThreshold": 1, "failureThreshold": 3},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ]
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "priority": 0,
        "priorityClassName": ("low", "normal", "high")[template % 3],
        "preemptionPolicy": "PreemptLowerPriority",
        "nodeName": f"node-{node:04d}",
        "tolerations": tolerations,
    }


def _status(number: int, template: int, *, second: int, phase: str) -> dict[str, Any]:
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": _time(second + after)}
        for after, name in enumerate(("PodScheduled", "Initialized", "ContainersReady", "Ready"))
    ]
    container = {
        "name": "web",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": f"registry.example/web:{template % 50}",
        "imageID": f"registry.example/web@sha256:{template % 50:064x}",
        "containerID": f"containerd://{number:064x}",
        "state": {"running": {"startedAt": _time(second + 3)}},
    }
    return {
        "phase": phase,
        "qosClass": "Burstable",
        "hostIP": f"10.0.{number % NODES // 256}.{number % NODES % 256}",
        "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "startTime": _time(second + 1),
        "conditions": conditions,
        "containerStatuses": [container],
    }


def _uid(space: int, number: int) -> str:
    return f"{space:08x}-0000-4000-8000-{number:012x}"


def _time(second: int) -> str:
    return f"2026-11-15T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"


def event(type_: str, obj: dict[str, Any]) -> bytes:
    return encode({"type": type_, "object": obj}) + b"\n"


def initial(objects: int) -> Iterator[bytes]:
    """The first part of a WatchList, in chunks, in the order of a list; then its end."""
    numbers = sorted(range(objects), key=_place)
    yield from in_chunks(
        (event("ADDED", pod(number, revision=FIRST_REVISION + number)) for number in numbers), CHUNK_EVENTS
    )
    yield bookmark(FIRST_REVISION + objects, {"k8s.io/initial-events-end": "true"})


def _place(number: int) -> tuple[str, str]:
    template = number // PODS_PER_TEMPLATE
    return f"team-{template % NAMESPACES:02d}", f"web-{template}-{number:07d}"


def bookmark(revision: int, annotations: dict[str, str] | None = None) -> bytes:
    meta = {"resourceVersion": str(revision), **({"annotations": annotations} if annotations else {})}
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": meta})


def changes(objects: int, events: int, *, per_chunk: int, first: int = 0) -> Iterator[bytes]:
    """Status changes of pods drawn at random, each at most once as long as there are enough."""
    rng = random.Random("changes")
    numbers: list[int] = []
    while len(numbers) < events:
        numbers += rng.sample(range(objects), min(objects, events - len(numbers)))
    revision = FIRST_REVISION + objects + 1 + first
    yield from in_chunks(
        (
            event("MODIFIED", pod(number, revision=revision + at, phase="Failed"))
            for at, number in enumerate(numbers)
        ),
        per_chunk,
    )


def in_chunks(lines: Iterable[bytes], per_chunk: int) -> Iterator[bytes]:
    chunk: list[bytes] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == per_chunk:
            yield b"".join(chunk)
            chunk.clear()
    if chunk:
        yield b"".join(chunk)
