"""What the tests of pages about one object do to it: make it, wait for it, read what the API says of it."""

from __future__ import annotations

from typing import Any

from tests.cluster.living import Cluster, until
from tests.web.workloads import deployment

Obj = dict[str, Any]
OWN = "/apis/fathom.dev/v1alpha1"
STRATEGIC = "application/strategic-merge-patch+json"

# What no page may obey: markup, the end of a script, an escape sequence, a turned reading direction.
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
OBEYED = "\x1b[31mred\x1b[0m \u202eturned\u202c"
OBEYED_SHOWN = r"\x1b[31mred\x1b[0m \u202eturned\u202c"


def make_deployment(cluster: Cluster, namespace: str, name: str, *, replicas: int = 1) -> list[Obj]:
    """Its pods, which are ready."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    cluster.ask("POST", path, deployment(name, replicas=replicas))
    until(lambda: len(ready_pods(cluster, namespace, name)) == replicas, lambda: f"{name} is not ready")
    return ready_pods(cluster, namespace, name)


def make_pod(cluster: Cluster, namespace: str, name: str, program: str) -> Obj:
    """A pod that runs this shell program, once it is ready."""
    container = {"name": "main", "image": "sleeper:1", "command": ["sh", "-c", program]}
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.ask("POST", path, body)
    until(lambda: _is_ready(cluster.ask("GET", f"{path}/{name}")), lambda: f"pod {name} is not ready")
    made: Obj = cluster.ask("GET", f"{path}/{name}")
    return made


def ready_pods(cluster: Cluster, namespace: str, app: str) -> list[Obj]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}"
    return [pod for pod in cluster.ask("GET", path)["items"] if _is_ready(pod)]


def _is_ready(pod: Obj) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def set_image(cluster: Cluster, namespace: str, name: str, image: str) -> None:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    cluster.ask("PATCH", f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", patch, STRATEGIC)


def timeline_of(cluster: Cluster, namespace: str, pod: str) -> Obj:
    body = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Timeline",
        "spec": {"subject": {"kind": "Pod", "name": pod}},
    }
    answer: Obj = cluster.ask("POST", f"{OWN}/namespaces/{namespace}/timelines", body)["status"]
    return answer


def decisions_of(cluster: Cluster, namespace: str, pod: str) -> list[Obj]:
    """Those of the scheduler, the oldest first."""
    query = f"fieldSelector=spec.subject.resource%3Dpods,spec.subject.name%3D{pod}"
    listed = cluster.ask("GET", f"{OWN}/namespaces/{namespace}/decisions?{query}")["items"]
    return [each for each in listed if each["spec"]["controller"] == "scheduler"]
