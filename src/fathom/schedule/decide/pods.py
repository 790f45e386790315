"""Pods as the scheduler sees them: their identity, state and shape."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.kinds.capacity_class import CAPACITY_CLASS
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.tenancy import charged_to
from fathom.model.times import moment_ns
from fathom.schedule.decide.read_shape import shape_of
from fathom.schedule.decide.shape import PodShape

# Shapes kept by a reader. Beyond that it starts anew: reading one again costs some 50 µs.
SHAPES_MAX = 10_000

# The fields of a spec that a shape is read from, but for its containers and volumes.
_READ = (
    "priority",
    "preemptionPolicy",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulingGates",
    "overhead",
    "resources",
    "resourceClaims",
)


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    key: Key
    uid: str
    shape: PodShape
    revision: int = 0
    created_ns: int = 0
    started_ns: int = 0  # 0 until it has started.
    node: str = ""  # Where it is bound.
    nominated: str = ""  # The node where pods were evicted to make room for it.
    deleting: bool = False
    finished: bool = False  # Succeeded or failed: it uses no room any more.
    # Tenant, zone and class that the server has charged it to; None where there is no ledger, or no node yet.
    charged: tuple[str, str, str] | None = None

    @property
    def tenant(self) -> str:
        return self.shape.tenant

    @property
    def priority(self) -> int:
        return self.shape.priority


def pod_view(obj: Obj, *, tenant: str) -> PodView:
    return _view(obj, shape_of(obj, tenant=tenant))


class ShapeReader:
    """Reads pods, and caches shapes: thousands of pods come from one template. Its answers do not depend on
    the cache."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, PodShape] = {}  # What a shape is read from -> the shape.

    def view(self, obj: Obj, *, tenant: str) -> PodView:
        read = _encode(_read_from(obj, tenant))
        shape = self._shapes.get(read)
        if shape is None:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            shape = self._shapes[read] = shape_of(obj, tenant=tenant)
        return _view(obj, shape)


_encode = msgspec.msgpack.Encoder().encode


def _read_from(obj: Obj, tenant: str) -> tuple[Any, ...]:
    meta, spec = metadata(obj), obj.get("spec") or {}
    parts = [
        (
            container.get("resources"),
            container.get("ports"),
            container.get("image"),
            container.get("restartPolicy"),
            first,
        )
        for first, listed in ((True, "initContainers"), (False, "containers"))
        for container in spec.get(listed) or ()
    ]
    volumes = [
        (
            volume.get("persistentVolumeClaim"),
            (meta.get("name"), volume.get("name")) if "ephemeral" in volume else None,
        )
        for volume in spec.get("volumes") or ()
        if "persistentVolumeClaim" in volume or "ephemeral" in volume
    ]
    owners = [
        (owner.get("kind"), owner.get("name"))
        for owner in meta.get("ownerReferences") or ()
        if owner.get("controller")
    ]
    drawn = (meta.get("annotations") or {}).get(CAPACITY_CLASS)
    return (
        tenant,
        meta.get("namespace"),
        labels_of(obj),
        owners,
        drawn,
        [spec.get(field) for field in _READ],
        parts,
        volumes,
    )


def _view(obj: Obj, shape: PodShape) -> PodView:
    meta, spec, status = metadata(obj), obj.get("spec") or {}, obj.get("status") or {}
    revision = str(meta.get("resourceVersion") or "")
    return PodView(
        key=key_of(obj),
        uid=uid_of(obj),
        shape=shape,
        revision=int(revision) if revision.isdecimal() else 0,
        created_ns=moment_ns(meta.get("creationTimestamp")) or 0,
        started_ns=moment_ns(status.get("startTime")) or 0,
        node=str(spec.get("nodeName") or ""),
        nominated=str(status.get("nominatedNodeName") or ""),
        deleting=is_deleting(obj),
        finished=is_terminal(obj),
        charged=charged_to(obj) if spec.get("nodeName") else None,
    )
