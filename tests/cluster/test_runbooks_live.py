"""A runbook on a running cluster: its runner is killed, and another person goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.living import Cluster, deployment, until
from tests.cluster.steering import COLLEAGUE, DEFAULT, Obj, command, make_colleague, ran

OWN = "/apis/fathom.dev/v1alpha1/namespaces/default"
MAPS = f"/api/v1{DEFAULT}/configmaps"


def book(app: str) -> Obj:
    """Keep new pods of an app out of a zone until somebody says go; then return to normal."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app}
    override = {"apiVersion": "fathom.dev/v1alpha1", "kind": "SchedulerOverride", "name": "${run}"}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Runbook",
        "metadata": {"name": f"{app}-book"},
        "spec": {
            "title": "Avoid a zone for a while",
            "parameters": [
                {"name": "zone", "description": "the zone", "pattern": "[a-z]+"},
                {"name": "replicas", "default": "3", "type": "integer"},
            ],
            "inputs": [
                {"name": "target", "object": target, "observed": True},
                {"name": "override", "object": override},
                {"name": "go", "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{app}-go"}},
                {"name": "decisions", "decisions": {"workload": app, "after": "end"}},
                {"name": "restarts", "metric": {"process": "scheduler", "name": "fathom_build_info"}},
            ],
            "preconditions": [
                {"name": "target-ready", "expression": "target.status.readyReplicas == target.spec.replicas"},
                {"name": "scheduler-answers", "expression": "restarts.size() == 1"},
            ],
            "steps": [
                {
                    "id": "override",
                    "title": "Avoid the zone",
                    "action": {
                        "create": {
                            "apiVersion": "fathom.dev/v1alpha1",
                            "kind": "SchedulerOverride",
                            "metadata": {"name": "${run}"},
                            "spec": {
                                "target": f"workload/{app}",
                                "scope": "cluster",
                                "reason": "test of run ${run}",
                                "expiresAfter": "10m",
                                "changes": {"avoidZones": ["${zone}"]},
                            },
                        }
                    },
                    "expect": [
                        {
                            "name": "stored",
                            "expression": "override.status.expiresAt != ''",
                            "show": "override.status.author",
                        }
                    ],
                    "compensation": {"delete": override},
                },
                {
                    "id": "wait",
                    "action": {"wait": {"about": "somebody says go"}},
                    "expect": [{"name": "go", "expression": "go != null"}],
                },
                {
                    "id": "end",
                    "action": {"delete": override},
                    "reversible": False,
                    "expect": [{"name": "gone", "expression": "override == null"}],
                },
                {
                    "id": "grow",
                    "action": {"scale": {"target": target, "replicas": "${replicas}"}},
                    "expect": [{"name": "grown", "expression": "target.status.readyReplicas == 3"}],
                    "compensation": {"restore": True},
                },
            ],
            "postconditions": [
                {
                    "name": "normal-control-works",
                    "for": "3s",
                    "expression": "decisions.exists(d, d.spec.controller == 'scheduler') && decisions.all(d,"
                    " !has(d.spec.overrides) || !d.spec.overrides.exists(o, has(o.decisive) && o.decisive))",
                    "show": "decisions.map(d, d.spec.controller + ' ' + d.spec.verdict)",
                }
            ],
        },
    }


@pytest.fixture
def app(cluster: Cluster) -> Iterator[str]:
    name = f"steered-{random.Random(os.urandom(8)).randrange(10_000)}"
    cluster.ask("POST", f"/apis/apps/v1{DEFAULT}/deployments", deployment(name, 1))
    cluster.until_ready(name, 1)
    cluster.ask("POST", f"{OWN}/runbooks", book(name))
    yield name
    cluster.ask("DELETE", f"/apis/apps/v1{DEFAULT}/deployments/{name}")
    cluster.ask("DELETE", f"{OWN}/runbooks/{name}-book")


@pytest.fixture
def colleague(cluster: Cluster, tmp_path: Path) -> Path:
    return make_colleague(cluster, tmp_path)


@pytest.mark.full
def test_a_killed_run_is_resumed_by_another_person_and_nothing_is_done_twice(
    cluster: Cluster, app: str, colleague: Path, tmp_path: Path
) -> None:
    admin = cluster.data / "kubeconfig"
    name, run = f"{app}-book", f"{app}-run"
    code, text, _ = ran(admin, "plan", name, "--set", "zone=a")
    assert (code, "True    target-ready" in text) == (0, True), text
    assert "does: create SchedulerOverride" in text
    assert ran(admin, "run", name, "--yes")[2] == (
        f"fathom: error: runbook {name}: the parameter zone needs a value (the zone): --set zone=…\n"
    )

    out = tmp_path / "out"
    with out.open("w") as file:
        runner = subprocess.Popen(
            command(admin, "run", name, "--set", "zone=a", "--yes", "--name", run), stdout=file, stderr=file
        )
    # The moment of its death is drawn: before the request, before its answer, or while it waits.
    moments = ["step override: create", "stored is True", "step wait"]
    moment = random.Random(os.urandom(8)).choice(moments)
    until(lambda: moment in out.read_text(), lambda: f"{moment}: {out.read_text()}")
    runner.send_signal(signal.SIGKILL)
    runner.wait()

    record = cluster.ask("GET", f"{OWN}/runbookruns/{run}")
    assert (record["status"]["phase"], record["status"]["author"]) == ("Running", "fathom-admin")
    code, _, error = ran(colleague, "resume", run)
    assert (code, "is at work on" in error) == (2, True), error
    cluster.ask("POST", MAPS, {"metadata": {"name": f"{app}-go"}})
    # Another's steps would be done with the colleague's rights: they are shown, and somebody must agree.
    code, text, error = ran(colleague, "resume", run, "--take-over")
    assert (code, "there is no terminal to ask at" in error) == (2, True), error
    assert ("was begun by fathom-admin" in text, "does: create SchedulerOverride" in text) == (True, True), (
        text
    )
    code, text, error = ran(colleague, "resume", run, "--take-over", "--yes")
    assert code == 0, (moment, text, error)

    status = cluster.ask("GET", f"{OWN}/runbookruns/{run}")["status"]
    assert {step["id"]: step["state"] for step in status["steps"]} == dict.fromkeys(
        ("override", "wait", "end", "grow"), "Done"
    )
    assert [step["by"] for step in status["steps"][1:]] == [COLLEAGUE] * 3
    code, text, _ = ran(admin, "report", run)
    assert f"| carried out by | fathom-admin, {COLLEAGUE} |" in text
    if "No answer to its write came" not in text:
        assert "The audit log confirms every write of the run." in text, text
    question = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Timeline",
        "spec": {"subject": {"kind": "SchedulerOverride", "name": run}, "fold": False},
    }
    made = cluster.ask("POST", f"{OWN}/timelines", question)
    creations = [entry for entry in made["status"]["entries"] if entry["text"].startswith("creates ")]
    assert len(creations) == 1, (moment, creations)


@pytest.mark.full
def test_an_aborted_run_leaves_nothing_behind(cluster: Cluster, app: str) -> None:
    admin = cluster.data / "kubeconfig"
    name, run = f"{app}-book", f"{app}-abort"
    runner = subprocess.Popen(
        command(admin, "run", name, "--set", "zone=a", "--yes", "--name", run),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    path = f"{OWN}/runbookruns"

    def waits() -> bool:
        runs = [each for each in cluster.ask("GET", path)["items"] if each["metadata"]["name"] == run]
        steps = runs[0].get("status", {}).get("steps", []) if runs else []
        return any(step["id"] == "wait" and step.get("state") == "Acted" for step in steps)

    until(waits, lambda: str(cluster.ask("GET", path)))
    code, text, error = ran(admin, "abort", run, "--yes", "--reason", "it was only a test")
    assert code == 0, (text, error)
    output, _ = runner.communicate(timeout=60)
    assert "has taken the run over" in output
    overrides = cluster.ask("GET", f"{OWN}/scheduleroverrides")["items"]
    assert run not in [each["metadata"]["name"] for each in overrides]
    text = ran(admin, "report", run)[1]
    assert "| result | Aborted (Aborted) |" in text
    assert "it was only a test" in text
