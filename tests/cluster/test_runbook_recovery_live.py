"""The recovery of a workload from a stale zone, on a running cluster: a runbook of the library. Its runner is
killed, and another person finishes the run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cluster.living import Cluster, until
from tests.cluster.steering import DEFAULT, RBAC, Obj, Person, command, ran

pytest.importorskip("fathom.controllers.overrides", reason="no controller acknowledges overrides")

OWN = "/apis/fathom.dev/v1alpha1"
BOOK = "recover-workload-from-stale-zone"
COLLEAGUE = "colleague"


def spread(app: str) -> Obj:
    """Two replicas, one on each node."""
    labels = {"app": app}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    spec = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "sleeper", "command": ["sleep", "1000"]}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def nodes_by_zone(cluster: Cluster) -> dict[str, str]:
    nodes = cluster.ask("GET", "/api/v1/nodes")["items"]
    return {
        node["metadata"]["labels"]["topology.kubernetes.io/zone"]: node["metadata"]["name"] for node in nodes
    }


def furnish(cluster: Cluster, app: str, region: str, pool: str) -> str:
    """One zone takes no pods, one is reserved for recovery: a replica waits. The node of the first zone."""
    nodes = nodes_by_zone(cluster)
    for name in nodes.values():
        labels = {"topology.kubernetes.io/region": region}
        cluster.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    stale = nodes[f"{region}-a"]
    cluster.patch(f"/api/v1/nodes/{nodes[f'{region}-c']}", {"metadata": {"labels": {"pool": pool}}})
    cluster.patch(f"/api/v1/nodes/{stale}", {"spec": {"unschedulable": True}})
    reserved = {"nodeSelector": {"pool": pool}, "tenants": ["others"]}
    body = {"apiVersion": OWN.removeprefix("/apis/"), "kind": "CapacityClass", "metadata": {"name": pool}}
    cluster.ask("POST", f"{OWN}/capacityclasses", {**body, "spec": reserved})
    cluster.ask("POST", f"/apis/apps/v1{DEFAULT}/deployments", spread(app))
    until(lambda: len(cluster.ready(app)) == 1 and len(cluster.pods(app)) == 2, cluster.told)
    return stale


def test_a_workload_is_recovered_by_two_people_and_nothing_remains(tmp_path: Path) -> None:
    chance = random.Random(os.urandom(8))
    app, region, pool, run = (f"{word}-{chance.randrange(1000)}" for word in ("api", "eu", "pool", "run"))
    zones = ",".join(f"{region}-{letter}" for letter in "abc")
    cluster = Cluster(tmp_path, "--nodes", "3", "--zones", zones)
    try:
        cluster.start()
        stale = furnish(cluster, app, region, pool)
        admin, colleague = cluster.data / "kubeconfig", _colleague(cluster, tmp_path)
        values = {"workload": app, "region": region, "zone": f"{region}-a", "capacityClass": pool}
        words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        code, text, _ = ran(admin, "plan", BOOK, *words)
        assert (code, "of the cluster at revision" in text) == (0, True), text  # The override, in forks.
        _run_and_kill(cluster, (*words, "--yes", "--name", run, "--answer", "confirm=yes"), tmp_path, chance)
        code, text, _ = ran(colleague, "resume", run, "--take-over", "--yes", "--answer", "confirm=yes")
        assert (code, "Waiting: step normal waits" in text) == (1, True), text
        cluster.patch(f"/api/v1/nodes/{stale}", {"spec": {"unschedulable": None}})
        code, text, error = ran(colleague, "resume", run, "--yes", "--answer", "normal=yes")
        assert code == 0, (text, error)
        _check(cluster, app, run, admin, reserved=nodes_by_zone(cluster)[f"{region}-c"])
        cluster.stop()
    finally:
        cluster.end()


def _colleague(cluster: Cluster, directory: Path) -> Path:
    """The kubeconfig of a second person, who administers the cluster."""
    person = Person(cluster, COLLEAGUE)
    binding = {
        "metadata": {"name": COLLEAGUE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": COLLEAGUE}],
    }
    cluster.ask("POST", f"{RBAC}/clusterrolebindings", binding)
    return person.kubeconfig(directory)


def _run_and_kill(cluster: Cluster, words: tuple[str, ...], directory: Path, chance: random.Random) -> None:
    """The moment of its death is drawn."""
    out = directory / "out"
    with out.open("w") as file:
        runner = subprocess.Popen(
            command(cluster.data / "kubeconfig", "run", BOOK, *words), stdout=file, stderr=file
        )
    moments = ["step confirm: ask", "step override: create", "override-stored is", "step pause", "step allow"]
    moment = chance.choice(moments)
    until(lambda: moment in out.read_text(), lambda: f"{moment}: {out.read_text()}")
    runner.send_signal(signal.SIGKILL)
    runner.wait()


def _check(cluster: Cluster, app: str, run: str, admin: Path, *, reserved: str) -> None:
    status = cluster.ask("GET", f"{OWN}{DEFAULT}/runbookruns/{run}")["status"]
    assert status["phase"] == "Succeeded"
    assert {step["state"] for step in status["steps"]} == {"Done"}
    assert {line["by"] for line in status["history"]} == {"fathom-admin", COLLEAGUE}
    assert cluster.ask("GET", f"{OWN}{DEFAULT}/scheduleroverrides")["items"] == []
    assert reserved not in [pod["spec"]["nodeName"] for pod in cluster.pods(app)]
    report = ran(admin, "report", run)[1]
    assert "| normal-control-works | True |" in report
    if "No answer to its write came" not in report:
        assert "The audit log confirms every write of the run." in report, report
