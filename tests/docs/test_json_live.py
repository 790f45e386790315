"""What commands print for programs on a live cluster has no field that docs/json.md lacks."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.living import Cluster
from tests.docs.test_reference import DOCS, unknown

pytestmark = [pytest.mark.live, pytest.mark.full]

WEB = Path(__file__).parents[2] / "docs" / "examples" / "web-too-large.yaml"
# The command, and the title on the page.
ASKED = {
    "why deployment/web -o json": "fathom why",
    "why -o json": "fathom why, without a name",
    "status deployment/web -o json": "fathom status",
    "top -o json": "fathom top",
    "top deployment/web -o json": "fathom top, of one workload",
    "timeline deployment/web -o json": "fathom timeline",
    "coupling deployment/web:spec.replicas -o json": "fathom coupling",
    "decisions -o json": "fathom decisions",
    "doctor --port 0 -o json": "fathom doctor",
    "record status --json": "fathom record status",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("json"))
    running.start()
    try:
        assert fathom(running, "apply", "-f", str(WEB)) == "deployment.apps/web created\n"
        yield running
    finally:
        running.end()


def fathom(cluster: Cluster, *words: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(cluster.data / "kubeconfig")}
    command = [sys.executable, "-m", "fathom.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout


@pytest.mark.parametrize("command", ASKED)
def test_every_field_that_is_printed_is_on_the_page(
    cluster: Cluster, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DOCS / "site")
    documents: tuple[Any, ...] = importlib.import_module("json_outputs").DOCUMENTS
    (document,) = [document for document in documents if document.title == ASKED[command]]
    rows = importlib.import_module("fields").rows
    paths = {path for path, _, _ in rows(document.shapes[0])}
    printed = json.loads(fathom(cluster, *command.split()))
    assert printed
    assert unknown(printed, paths) == []
