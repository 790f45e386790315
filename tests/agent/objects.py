"""Pods and views for tests of the agent, small."""

from __future__ import annotations

from typing import Any

from fathom.agent.container_views import ContainerView, Health
from fathom.agent.runtime import ContainerRun, Exit
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS

T0 = 1_767_225_600 * SECOND_NS  # 2026-01-01T00:00:00Z


def s(seconds: float) -> int:
    return T0 + round(seconds * SECOND_NS)


def container(name: str = "main", **fields: Any) -> Obj:
    return {"name": name, "image": "program", **fields}


def pod(*containers: Obj, init: tuple[Obj, ...] = (), policy: str = "Always", **fields: Any) -> Obj:
    meta = {"name": "web", "namespace": "default", "uid": "u1", "generation": 1, **fields.pop("metadata", {})}
    spec: Obj = {
        "nodeName": "n1",
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 30,
        "containers": list(containers) or [container()],
        **({"initContainers": list(init)} if init else {}),
        **fields.pop("spec", {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, **fields}


def run(name: str = "main", attempt: int = 0, *, at: float = 0, crashes: int = 0) -> ContainerRun:
    return ContainerRun("u1", name, attempt, f"process://u1/{name}/{attempt}", s(at), crashes)


def ended(
    code: int, name: str = "main", attempt: int = 0, *, at: float = 0, after: float = 1, crashes: int = 0
) -> ContainerRun:
    return ContainerRun(
        "u1", name, attempt, f"process://u1/{name}/{attempt}", s(at), crashes, Exit(code, s(at + after))
    )


WELL = Health(started=True, ready=True)


def alive(name: str = "main", attempt: int = 0, *, health: Health = WELL, **fields: Any) -> ContainerView:
    return ContainerView(run=run(name, attempt), health=health, **fields)


def over(code: int, name: str = "main", attempt: int = 0, **fields: Any) -> ContainerView:
    return ContainerView(run=ended(code, name, attempt, **fields))
