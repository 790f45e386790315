"""`script/kopf-examples`: what it does with an example in the world, and what it calls a difference."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "script" / "kopf-examples"
GREETINGS = ROOT / "examples" / "operators"

GREETER = """
import kopf, kubernetes

@kopf.on.create("greetings.example.dev")
def greet(namespace, logger, **_):
    kubernetes.config.load_kube_config()
    card = {"metadata": {"generateName": "card-"}}
    kopf.adopt(card)
    made = kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, card)
    logger.info("Greeted.")
    return {"card": made.metadata.uid}
"""


@pytest.mark.slow
@pytest.mark.live
def test_an_example_is_told_step_by_step_without_what_differs_in_each_run(tmp_path: Path) -> None:
    folder = tmp_path / "greeter"
    folder.mkdir()
    (folder / "example.py").write_text(GREETER)
    (tmp_path / "crd.yaml").write_text((GREETINGS / "greeting-crd.yaml").read_text())
    (tmp_path / "obj.yaml").write_text((GREETINGS / "hello.yaml").read_text())
    ran = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "greeter", "--in-world", "0"],
        capture_output=True,
        text=True,
        check=True,
    )
    (told,) = json.loads(ran.stdout)
    assert told["broken"] == ""
    assert list(told["states"]) == ["started", "created", "changed", "started again", "deleted"]
    created, deleted = told["states"]["created"], told["states"]["deleted"]
    (greeting,) = created["greetings.example.dev default/hello"]
    (card,) = created["configmaps default/card-(random)"]
    assert greeting["status"] == {"greet": {"card": "(uid of ConfigMap card-(random))"}}
    assert card["metadata"]["ownerReferences"][0]["uid"] == "(uid of Greeting hello)"
    assert "info Greeted." in created["log"]
    assert not any(path.startswith(("configmaps", "greetings")) for path in deleted)


def differences(world: Any, live: Any) -> list[str]:
    return list(runpy.run_path(str(SCRIPT))["differences"](world, live))


def test_what_is_on_one_side_only_is_named_once() -> None:
    world = {"created": {"pods a": [1], "log": ["x"]}, "deleted": {"pods a": [1], "log": ["x"]}}
    live = {"created": {"log": ["x", "y"]}, "deleted": {"log": ["x"]}}
    assert differences(world, live) == ["created: log, only live: y", "created: pods a: only in the world"]


def test_sides_that_are_alike_have_no_difference() -> None:
    assert differences({"created": {"pods a": [1]}}, {"created": {"pods a": [1]}}) == []
