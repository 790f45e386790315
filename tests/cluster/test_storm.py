"""Signals to anybody, at any moment, while everything moves: parts, supervisor, shims, programs. When it is
over, exactly what is wanted runs, once, and what was to be done was done as often as asked."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.living import Cluster, Obj, deployment, kill_recorded, service, until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CALM_S = 180.0  # Restarts of whoever died young wait for longer each time.
REPLICAS_MAX, COMPLETIONS_MAX = 5, 4


class Storm:
    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.mark = str(cluster.data)
        self.replicas, self.word = 2, "w0"
        self.jobs: dict[str, int] = {}

    # What is wanted.

    def begin(self) -> None:
        self.cluster.ask("POST", SERVICES, service("web"))
        self.cluster.ask("POST", DEPLOYMENTS, self._deployment())

    def change(self, number: int) -> None:
        self.replicas = self.rng.randint(1, REPLICAS_MAX)
        self.word = self.rng.choice((self.word, f"w{number}"))
        spec = self._deployment()["spec"]
        media = "application/merge-patch+json"
        self._insist(lambda: self.cluster.ask("PATCH", f"{DEPLOYMENTS}/web", {"spec": spec}, media))
        job = f"job-{number}"
        self.jobs[job] = self.rng.randint(1, COMPLETIONS_MAX)
        self._insist(lambda: self.cluster.ask("POST", JOBS, self._job(job, self.jobs[job])))

    def _insist(self, ask: Callable[[], Any]) -> None:
        """Whoever is asked may have been killed a moment ago; it may also have done it, and not said so."""

        def asked() -> bool:
            try:
                ask()
            except OSError:
                return False
            except AssertionError as error:
                return " 409 " in str(error)
            return True

        until(asked, self.cluster.told, CALM_S)

    def _deployment(self) -> Obj:
        made = deployment("web", self.replicas, self.word)
        made["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "STORM", "value": self.mark})
        return made

    def _job(self, name: str, completions: int) -> Obj:
        env = [{"name": "STORM", "value": self.mark}]
        run = {"name": "main", "image": "x", "command": ["sh", "-c", "sleep 0.5 & wait"], "env": env}
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [run], "restartPolicy": "Never"},
        }
        spec = {"completions": completions, "parallelism": 2, "backoffLimit": 50, "template": template}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}

    # What happens.

    def blow(self) -> None:
        time.sleep(self.rng.uniform(0.0, 1.5))
        blows = (self._kill_parts, self._kill_parts, self._kill_all, self._kill_runs, self._stop_part)
        self.rng.choice(blows)()

    def _kill_parts(self) -> None:
        parts = self.cluster.parts()
        for name in self.rng.sample(sorted(parts), self.rng.randint(0, len(parts))):
            _signal(parts[name], signal.SIGKILL)

    def _kill_all(self) -> None:
        for pid in (*self.cluster.parts().values(), self.cluster.process.pid):
            _signal(pid, signal.SIGKILL)
        self.cluster.process.wait()
        self.cluster.start()

    def _kill_runs(self) -> None:
        files = sorted(self.cluster.data.glob("agents/*/pods/*/runs/*/*/run.json"))
        for file in self.rng.sample(files, min(2, len(files))):
            who = self.rng.choice(("shim", "pid"))
            with contextlib.suppress(OSError):
                record = json.loads(file.read_text())
                kill_recorded(record[who], record[f"{who}_started"])

    def _stop_part(self) -> None:
        parts = self.cluster.parts()
        if parts:
            pid = parts[self.rng.choice(sorted(parts))]
            _signal(pid, signal.SIGSTOP)
            time.sleep(2)
            _signal(pid, signal.SIGCONT)

    # What is there when it is over.

    def wrong(self) -> str:
        try:
            return self._wrong()
        except (OSError, AssertionError) as error:
            return str(error)

    def _wrong(self) -> str:
        for job, completions in self.jobs.items():
            if (done := self.cluster.ask("GET", f"{JOBS}/{job}")["status"].get("succeeded")) != completions:
                return f"{job}: {done} of {completions}"
        pods = {pod["metadata"]["name"] for pod in self.cluster.pods("web")}
        if len(pods) != self.replicas or len(self.cluster.ready("web")) != self.replicas:
            return f"{self.replicas} wanted, there are {pods}"
        if (running := self.running()) != Counter(pods):
            return f"pods {pods}, processes {running}"
        pod, word, _ = self.cluster.fetch("web").split()
        return "" if pod in pods and word == self.word else f"{pod} answers {word}, wanted {self.word}"

    def running(self) -> Counter[str]:
        """Pod -> how many processes, whoever is their parent."""
        found: Counter[str] = Counter()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                env = Path(f"/proc/{name}/environ").read_bytes().decode(errors="replace").split("\0")
                if f"STORM={self.mark}" in env:
                    found.update(word.partition("=")[2] for word in env if word.startswith("POD_NAME="))
        return found


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def survived(directory: Path, *, seed: int, rounds: int) -> None:
    storm = Storm(Cluster(directory, "--nodes", "3"), seed)
    try:
        storm.cluster.start()
        storm.begin()
        for number in range(rounds):
            storm.blow()
            storm.change(number)
            storm.blow()
            until(lambda: not storm.wrong(), lambda: f"{storm.wrong()}\n{storm.cluster.told()}", CALM_S)
        storm.cluster.ask("DELETE", f"{DEPLOYMENTS}/web")
        until(lambda: not storm.running(), lambda: f"still there: {storm.running()}")
        storm.cluster.stop()
    finally:
        storm.cluster.end()


@pytest.mark.full
def test_whoever_is_killed_and_whenever_what_is_wanted_runs_once_in_the_end(tmp_path: Path) -> None:
    survived(tmp_path, seed=6, rounds=2)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_what_is_wanted_runs_once_after_many_storms(tmp_path: Path, seed: int) -> None:
    survived(tmp_path, seed=seed, rounds=12)
