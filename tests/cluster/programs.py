"""Small programs, and the objects that run them."""

from __future__ import annotations

from typing import Any

from tests.cluster.living import Obj

SLEEP = ("sleep", "1000")
QUICK = {"terminationGracePeriodSeconds": 1}


def container(*words: str, **fields: Any) -> Obj:
    return {"name": "main", "image": "program:1", "command": list(words), **fields}


def pod(name: str, *words: str, labels: Obj | None = None, of: Obj | None = None, **spec: Any) -> Obj:
    """`of`: fields of its one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container(*(words or SLEEP), **(of or {}))], **QUICK, **spec},
    }


def deployment(
    name: str, *words: str, replicas: int = 2, of: Obj | None = None, inner: Obj | None = None, **spec: Any
) -> Obj:
    """`of`: fields of its container, `inner`: of its pods."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container(*(words or SLEEP), **(of or {}))], **QUICK, **(inner or {})},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def job(name: str, script: str, **spec: Any) -> Obj:
    inner = {"containers": [container("sh", "-c", script)], "restartPolicy": "Never", **QUICK}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": inner}, **spec},
    }


def own(kind: str, name: str, **spec: Any) -> Obj:
    return {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
