"""The files of deploy/ for separate processes: every flag in them exists, and every object is one."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from fathom.cli.main import make_app

DEPLOY = Path(__file__).parents[2] / "deploy"
FLAG_FILES = sorted(DEPLOY.glob("*/fathom.toml"))


def flags_of(*command: str) -> set[str]:
    app = make_app()
    for word in command:
        app = app[word]
    return {name.removeprefix("--") for each in app.assemble_argument_collection() for name in each.names}


@pytest.mark.parametrize("file", FLAG_FILES, ids=[file.parent.name for file in FLAG_FILES])
def test_a_file_of_flags_names_flags_that_exist(file: Path) -> None:
    for part, flags in tomllib.loads(file.read_text())["serve"].items():
        assert set(flags) - flags_of("serve", part) == set(), part


def test_every_part_has_a_unit_that_starts_it() -> None:
    started = {}
    for file in (DEPLOY / "systemd").glob("*.service"):
        (command,) = re.findall(r"^ExecStart=/opt/fathom/bin/fathom serve (\S+)", file.read_text(), re.M)
        started[file.stem] = command
    parts = ("api", "scheduler", "controllers", "gateway", "agent")
    assert started == {f"fathom-{part}": part for part in parts}


def test_a_stopping_server_has_more_time_than_it_drains() -> None:
    (unit,) = re.findall(r"^TimeoutStopSec=(\d+)", (DEPLOY / "systemd/fathom-api.service").read_text(), re.M)
    drains = [tomllib.loads(file.read_text())["serve"]["api"]["drain"] for file in FLAG_FILES]
    pod = next(yaml.safe_load_all((DEPLOY / "kubernetes/control-plane.yaml").read_text()))
    grace = pod["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert max(drains) + 10 < min(int(unit), grace)


@pytest.mark.live
def test_kustomize_makes_objects_of_the_kustomization(kubectl: str) -> None:
    made = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / "kubernetes")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    kinds = sorted(obj["kind"] for obj in yaml.safe_load_all(made))
    assert kinds == ["ConfigMap", "Deployment", "Namespace", "PodDisruptionBudget", "Service"]
