"""Workloads for pages to show."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def deployment(name: str, note: str = "", *, replicas: int = 1, cpu: str = "1m") -> Obj:
    """One that runs. `note`: an annotation, which pages must show as text."""
    container = {"name": "main", "image": "sleeper:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"note": note}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        },
    }


def too_big(name: str) -> Obj:
    """One that no node has room for."""
    return deployment(name, cpu="900")
