"""A live incident: a cluster under load whose deciders are killed with SIGKILL, exported and replayed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.judging import exported_incident, judged
from tests.cluster.living import Cluster, Obj, until

from fathom.model.body import Body
from fathom.model.objects import Key
from fathom.record.incident_file import Incident, open_incident
from fathom.record.tape import reels
from fathom.store.protocol import Committed, Put
from fathom.store.sqlite import SqliteStore

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
    history, wrong = judged(loaded.data)
    assert (history.violations, wrong) == ([], [])
    assert history.commits > 300
    assert history.decisions > 100
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


async def bind_elsewhere(data: Path, key: Key) -> None:
    """Writes to the store itself, behind the back of all servers."""
    store = SqliteStore.open(data)
    path = f"/registry/pods/{key.namespace}/{key.name}"
    entry = await store.get(path)
    assert entry is not None
    moved = {**entry.body.obj, "spec": {**entry.body.obj["spec"], "nodeName": "elsewhere"}}
    assert isinstance(await store.commit([], [Put(path, Body(obj=moved))]), Committed)
    await store.close()


@pytest.mark.full
def test_a_broken_invariant_is_found_in_the_history_and_its_incident_exported(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, *NODES)
    try:
        cluster.start()
        incident(cluster)
        pod = Key("default", str(cluster.ready("web")[0]["metadata"]["name"]))
        cluster.stop()
    finally:
        cluster.end()
    asyncio.run(bind_elsewhere(cluster.data, pod))
    history, _ = judged(cluster.data)
    broken = {violation.invariant: violation for violation in history.violations}
    assert "one binding per pod" in broken
    violation, file = broken["one binding per pod"], tmp_path / "planted.incident"
    assert violation.objects == (f"pods/default/{pod.name}",)
    assert exported_incident(violation, cluster.data, file) == f"incident {file}, replayed as recorded: True"


# Every recorded process, and a kill in the middle of each.


class Agents:
    """The agents of three nodes in one process, recorded."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster, self._out = cluster, directory / "agents.log"

    def start(self) -> None:
        data = str(self._cluster.data)
        options = ("--nodes", "3", "--zones", "a,b", "--driver", "simulated", "--up", data)
        record = ("--record", str(self._cluster.data / "tapes"))
        with self._out.open("a") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fathom.cli", "serve", "agent", *options, *record],
                stdout=out,
                stderr=out,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def told(self) -> str:
        return self._out.read_text()[-3000:]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[tuple[Cluster, Agents]]:
    cluster = Cluster(tmp_path, "--nodes", "0")
    agents = Agents(cluster, tmp_path)
    try:
        cluster.start()
        agents.start()
        until(lambda: len(cluster.ask("GET", "/api/v1/nodes")["items"]) == 3, agents.told)
        yield cluster, agents
        cluster.stop()
    finally:
        agents.kill()
        cluster.end()


def rollout_under_load(cluster: Cluster, agents: Agents) -> None:
    """Several Deployments are created and rolled out; scheduler, controllers and agents are killed on the
    way."""
    names = ("web", "api", "shop", "mail")
    for name in names:
        cluster.ask("POST", DEPLOYMENTS, deployment(name, 20))
    until(lambda: len(cluster.ready("web")) >= 5, cluster.told)
    for name in names:
        image = {"name": "main", "image": "main:2", "resources": {"requests": {"cpu": "20m"}}}
        cluster.patch(f"{DEPLOYMENTS}/{name}", {"spec": {"template": {"spec": {"containers": [image]}}}})
    deciders = cluster.parts()["deciders"]
    os.kill(deciders, signal.SIGKILL)
    agents.kill()
    agents.start()
    until(lambda: cluster.parts().get("deciders", deciders) != deciders, cluster.told)
    for name in names:
        until(lambda name=name: _is_rolled_out(cluster, name), cluster.told, within_s=180.0)  # type: ignore[misc]


def _is_rolled_out(cluster: Cluster, name: str) -> bool:
    pods = cluster.ready(name)
    images = {pod["spec"]["containers"][0]["image"] for pod in pods}
    return len(pods) == 20 and images == {"main:2"}


def exported(file: Path, data: Path, around: str) -> Incident:
    done = command(
        "record", "export", "--around", around, "--window", "10m", "--out", str(file), "--data", str(data)
    )
    assert done.returncode == 0, done.stderr
    with open_incident(file) as opened:
        return opened.incident


@pytest.mark.full
def test_a_rollout_under_load_with_every_process_killed_replays_whole(
    recorded: tuple[Cluster, Agents], tmp_path: Path
) -> None:
    cluster, agents = recorded
    rollout_under_load(cluster, agents)
    pod = cluster.ready("web")[0]
    incident = exported(tmp_path / "web.incident", cluster.data, f"pod/{pod['metadata']['name']}")
    runs = {(tape.process, tape.run) for tape in incident.tapes}
    node = pod["spec"]["nodeName"]
    assert {process for process, _ in runs} >= {"scheduler", "controllers", node}
    # All runs whose journal is not replayed in part: an agent's decisions are compared too.
    journals = {journal.process: journal for journal in incident.journals}
    assert all(journals[process].whole and journals[process].decisions for process, _ in runs)
    every = exported(tmp_path / "deploy.incident", cluster.data, "deploy/web")
    assert len({tape.run for tape in every.tapes if tape.process == "controllers"}) >= 2
    for file in (tmp_path / "web.incident", tmp_path / "deploy.incident"):
        replays = [command("replay", str(file), "--json", hash_seed=seed) for seed in ("1", "82219")]
        assert [done.returncode for done in replays] == [0, 0], replays[0].stdout[-3000:]
        assert replays[0].stdout == replays[1].stdout
    for process in ("node-1", "node-2", "node-3", "scheduler", "controllers"):
        directory = cluster.data / "tapes" / process
        for reel in reels(directory):
            done = command("replay", str(directory), "--run", str(reel.run), hash_seed="7")
            assert done.returncode == 0, f"{process} run {reel.run}: {done.stdout}"


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "--nodes", "12", "--driver", "simulated")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_a_live_tape_of_a_thousand_pods_goes_on_and_the_same_seed_gives_the_same(
    large: Cluster, tmp_path: Path
) -> None:
    names = [f"web-{number}" for number in range(10)]
    for name in names:
        large.ask("POST", DEPLOYMENTS, deployment(name, 100))
    for name in names:
        until(lambda name=name: len(large.ready(name)) == 100, large.told, within_s=300.0)  # type: ignore[misc]
    file = tmp_path / "web.incident"
    exported(file, large.data, "deploy/web-3")
    large.stop()
    continued = [
        command("replay", str(file), "--continue", "10m", "--seed", seed, "--json")
        for seed in ("1", "1", "2")
    ]
    assert [done.returncode for done in continued] == [0, 0, 0], continued[0].stderr
    first, again, other = [json.loads(done.stdout)["continuation"] for done in continued]
    assert first == again
    assert first["trace"] != other["trace"]
    assert first["before"]["pods"] == first["after"]["ready"] == 1000
