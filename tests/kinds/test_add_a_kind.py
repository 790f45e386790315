"""docs/add-a-kind.md, followed to the letter on a copy of the source."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fathom

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-kind.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CHANGES = re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL)
(OBJECT,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

# Runs on the copy. What it finds is printed, what it means is judged below.
STORY = """
import json, sys, yaml
from pathlib import Path
from tests.api.harness import Api, tell
from fathom.kube.definitions.own_crds import own_definitions
from fathom.kinds.maintenance_window import MaintenanceWindow, window_open
from fathom.kinds.shape import read
from fathom.model.times import moment_ns

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
ROOT = "/apis/fathom.dev/v1alpha1"
VIEW = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregate-to-view"

async def story(api: Api) -> None:
    good = yaml.safe_load(sys.argv[2])
    made = await api.post(f"{ROOT}/maintenancewindows?fieldValidation=Strict", good)
    bad = {**good, "metadata": {"name": "bad"}, "spec": {"lasts": ""}}
    by_schema = await api.post(f"{ROOT}/maintenancewindows", bad)
    bad["spec"] = {**good["spec"], "lasts": "soon"}
    by_rule = await api.post(f"{ROOT}/maintenancewindows", bad)
    status = {"status": {"phase": "Open"}}
    opened = await api.patch(f"{ROOT}/maintenancewindows/rack-7/status", status)
    table = (await api.get(f"{ROOT}/maintenancewindows", headers=TABLE)).obj
    resources = (await api.get(ROOT)).obj["resources"]
    noon = moment_ns("2026-01-01T12:00:00Z")
    window = read(MaintenanceWindow, made.obj)
    print(json.dumps({
        "made": made.status,
        "by_schema": sorted(field for field, _ in by_schema.causes),
        "by_rule": [field for field, _ in by_rule.causes],
        "phase": opened.obj["status"]["phase"],
        "columns": [column["name"] for column in table["columnDefinitions"]],
        "cells": table["rows"][0]["cells"][:4],
        "short": [one["shortNames"] for one in resources if one["name"] == "maintenancewindows"],
        "open": [window_open(window, noon + minute * 60 * 10**9) for minute in (-1, 0, 44, 45)],
        "view": "maintenancewindows" in json.dumps((await api.get(VIEW)).obj),
        "definition": "maintenancewindows.fathom.dev" in json.dumps(own_definitions()),
    }))

tell(story, Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("copy")
    follow_the_page(place)
    command = [sys.executable, "-c", STORY, str(place), OBJECT]
    env = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run(
        command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def follow_the_page(place: Path) -> None:
    """The file, and the row with its import."""
    source = Path(fathom.__file__).parent
    shutil.copytree(source, place / "fathom", ignore=shutil.ignore_patterns("__pycache__"))
    kinds = place / "fathom" / "kinds"
    (kinds / "maintenance_window.py").write_text(CODE)
    table = (kinds / "all.py").read_text()
    for change in CHANGES:
        lines = change.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        assert table.count(before) == 1, f"{before!r} is not in the table"
        table = table.replace(before, "".join(line[1:] for line in lines))
    (kinds / "all.py").write_text(table)


def test_the_kind_of_the_page_is_served_printed_and_checked(found: Any) -> None:
    assert found == {
        "made": 201,
        "by_schema": ["spec.lasts", "spec.nodeSelector", "spec.startsAt"],
        "by_rule": ["spec.lasts"],
        "phase": "Open",
        "columns": ["Name", "Starts", "Lasts", "Phase", "Reason", "Age"],
        "cells": ["rack-7", "2026-01-01T12:00:00Z", "45m", "Open"],
        "short": [["mwin"]],
        "open": [False, True, True, False],
        "view": True,
        "definition": True,
    }


def test_the_page_names_every_field_of_a_definition_and_of_its_rules() -> None:
    from fathom.kinds.definition import KindDefinition, Rules

    for field in (*KindDefinition.__struct_fields__, *Rules.__struct_fields__):
        assert re.search(rf"`{field}\b", PAGE), field
