"""A live incident: a cluster under load whose deciders are killed with SIGKILL, exported and replayed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.living import Cluster, Obj, until

from fathom.record.incident_file import open_incident
from fathom.record.tape import reels

pytestmark = pytest.mark.live

NODES = ("--nodes", "3", "--zones", "a,b", "--driver", "simulated")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, *NODES)
    try:
        cluster.start()
        yield cluster
        cluster.stop()
    finally:
        cluster.end()


def deployment(name: str, replicas: int) -> Obj:
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "10m"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def huge_pod() -> Obj:
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1000"}}}
    return {"metadata": {"name": "huge"}, "spec": {"containers": [container]}}


def incident(cluster: Cluster) -> None:
    """Load, a pod that waits, and deciders that are killed in the middle of it."""
    cluster.ask("POST", "/api/v1/namespaces/default/pods", huge_pod())
    for name in ("web", "api", "shop"):
        cluster.ask("POST", DEPLOYMENTS, deployment(name, 20))
    until(lambda: len(cluster.ready("web")) >= 5, cluster.told)
    deciders = cluster.parts()["deciders"]
    cluster.patch(f"{DEPLOYMENTS}/api", {"spec": {"replicas": 40}})
    os.kill(deciders, signal.SIGKILL)
    until(lambda: cluster.parts().get("deciders", deciders) != deciders, cluster.told)
    cluster.until_ready("api", 40)


def command(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fathom.cli", *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_incident_with_a_kill_in_it_replays_whole_and_goes_on(loaded: Cluster, tmp_path: Path) -> None:
    incident(loaded)
    file, data = tmp_path / "huge.incident", str(loaded.data)
    around = ("--around", "pod/huge", "--window", "10m", "--out", str(file), "--data", data)
    exported = command("record", "export", *around)
    assert exported.returncode == 0, exported.stderr
    with open_incident(file) as opened:
        runs = [tape.run for tape in opened.incident.tapes if tape.process == "scheduler"]
        assert len(runs) >= 2, "the scheduler was killed and started again"
    replays = [command("replay", str(file), "--json", hash_seed=seed) for seed in ("0", "82219")]
    assert [done.returncode for done in replays] == [0, 0], replays[0].stdout[-2000:]
    assert replays[0].stdout == replays[1].stdout
    assert json.loads(replays[0].stdout)["matched"] is True
    controllers = loaded.data / "tapes" / "controllers"
    for reel in reels(controllers):
        done = command("replay", str(controllers), "--run", str(reel.run))
        assert done.returncode == 0, done.stdout
    continued = command("replay", str(file), "--continue", "5m", "--seed", "1", "--json")
    assert continued.returncode == 0, continued.stderr
    after = json.loads(continued.stdout)["continuation"]
    assert after["before"]["pods"] == after["after"]["pods"] == 81
    assert after["after"]["ready"] == 80
    assert [change for change in after["changes"] if change["object"].startswith("pods/")] == []
