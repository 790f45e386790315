"""Two thousand pods of mixed constraints on a Kubernetes that knows nothing of fathom, while the scheduler is
killed twice; then detach leaves everything else as it was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attach.raw_rules import broken_rules
from tests.attach.real import add_node
from tests.attach.test_attach_live import attached, fathom, foreign, started
from tests.clients.running import Kubernetes

__all__ = ["foreign"]  # The fixture.

Obj = dict[str, Any]
PODS, NODES = 2_000, 100
PLACES = "/api/v1/namespaces/default/pods"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
# Nobody's but the server's own, and what moves by itself.
MOVES, MEASURED = {"leases", "events"}, {"metrics.k8s.io"}


@pytest.mark.live
@pytest.mark.full
@pytest.mark.timeout(900)
def test_thousands_of_pods_break_no_rule_though_the_scheduler_is_killed_twice(
    foreign: Kubernetes, tmp_path: Path
) -> None:
    rng = random.Random(1)
    for number in range(NODES):
        add_node(foreign, made_node(number))
    before = dump(foreign)
    with started(attached(foreign, tmp_path / "copy", "--yes"), tmp_path / "attach.log") as (process, _):
        killed = 0
        for number in range(PODS):
            foreign.request("POST", PLACES, made_pod(rng, number))
            if number in {PODS // 3, 2 * PODS // 3}:
                os.kill(scheduler_of(process), signal.SIGKILL)
                killed += 1
        assert killed == 2
        bound = until_nothing_changes(
            lambda: sum(1 for pod in pods_of(foreign) if pod["spec"].get("nodeName"))
        )
        ask = ("--kubeconfig", str(tmp_path / "copy" / "kubeconfig"))
        waiting = [pod["metadata"]["name"] for pod in pods_of(foreign) if not is_bound(pod)]
        for name in waiting[:5]:
            assert "waits" in fathom("why", f"pod/{name}", *ask, code=1)
    listed = foreign.request("GET", "/api/v1/nodes")["items"]
    assert broken_rules(listed, pods_of(foreign)) == []
    assert bound > PODS * 0.9
    fathom("detach", "--kubeconfig", str(foreign.kubeconfig), "--yes")
    for pod in pods_of(foreign):
        foreign.request("DELETE", f"{PLACES}/{pod['metadata']['name']}?gracePeriodSeconds=0")
    left = until_equal(lambda: dump(foreign), before)
    assert left == before


def made_node(number: int) -> Obj:
    name = f"node-{number}"
    labels = {ZONE: "abc"[number % 3], HOST: name, "disk": ("ssd", "hdd")[number % 4 == 0]}
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}] if number % 10 == 0 else []
    sizes = {"cpu": "8", "memory": "32Gi", "pods": "40"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": sizes, "capacity": sizes, "conditions": ready},
    }


def made_pod(rng: random.Random, number: int) -> Obj:
    """One of forty applications, each with one constraint."""
    app = number % 40
    requests = {"cpu": f"{rng.choice((50, 100, 250))}m", "memory": f"{rng.choice((64, 256))}Mi"}
    container: Obj = {"name": "main", "image": "i", "resources": {"requests": requests}}
    own = {"matchLabels": {"app": f"app-{app}"}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec: Obj = {"schedulerName": "fathom", "containers": [container]}
    constraint = app % 8
    if constraint == 0:
        spec["nodeSelector"] = {"disk": "ssd"}
    elif constraint == 1:
        expression = {"key": ZONE, "operator": "In", "values": ["a", "c"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {required: terms}}
    elif constraint == 2:
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    elif constraint == 3:
        spec["affinity"] = {"podAntiAffinity": {required: [{"topologyKey": HOST, "labelSelector": own}]}}
    elif constraint == 4:
        spec["affinity"] = {"podAffinity": {required: [{"topologyKey": ZONE, "labelSelector": own}]}}
    elif constraint == 5:
        container["ports"] = [{"containerPort": 80, "hostPort": 8000 + app}]
    elif constraint == 6:
        spread = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": own,
        }
        spec["topologySpreadConstraints"] = [spread]
    return {"metadata": {"name": f"pod-{number}", "labels": {"app": f"app-{app}"}}, "spec": spec}


def scheduler_of(process: subprocess.Popen[str]) -> int:
    """The process that `fathom attach` runs beside itself."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if b"scheduler" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
        time.sleep(0.1)
    raise AssertionError("no scheduler runs")


def is_bound(pod: Obj) -> bool:
    return bool(pod["spec"].get("nodeName"))


def pods_of(server: Kubernetes) -> list[Obj]:
    listed: list[Obj] = server.request("GET", PLACES)["items"]
    return listed


def until_nothing_changes(count: Callable[[], int]) -> int:
    """Of bound pods: the same for so long that a lease has expired and another scheduler has begun."""
    last, since_s = -1, time.monotonic()
    while time.monotonic() - since_s < 25:
        if (now := count()) != last:
            last, since_s = now, time.monotonic()
        time.sleep(1)
    return last


def until_equal(look: Callable[[], Obj], wanted: Obj) -> Obj:
    """What is seen at last: controllers take a while to see that something is gone."""
    deadline_s = time.monotonic() + 60
    while (seen := look()) != wanted and time.monotonic() < deadline_s:
        time.sleep(1)
    return seen


def dump(server: Kubernetes) -> dict[str, str]:
    """Every object of every resource, without versions and times."""
    return {
        f"{path} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}": json.dumps(
            _timeless(obj), sort_keys=True
        )
        for path in _listable(server)
        for obj in server.request("GET", path)["items"]
    }


def _listable(server: Kubernetes) -> Iterator[str]:
    groups = server.request("GET", "/apis")["groups"]
    versions = [
        group["preferredVersion"]["groupVersion"] for group in groups if group["name"] not in MEASURED
    ]
    for base in ("/api/v1", *(f"/apis/{version}" for version in versions)):
        for resource in server.request("GET", base)["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] not in MOVES:
                yield f"{base}/{resource['name']}"


def _timeless(obj: Any) -> Any:
    if isinstance(obj, dict):
        moving = {"resourceVersion", "creationTimestamp", "time", "lastTransitionTime", "lastHeartbeatTime"}
        return {key: _timeless(value) for key, value in obj.items() if key not in moving}
    return [_timeless(each) for each in obj] if isinstance(obj, list) else obj
