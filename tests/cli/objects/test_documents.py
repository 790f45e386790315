"""-o of commands that change objects, on a real API server: the documents and names that kubectl prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import yaml
from tests.api.harness import ADMIN, Api
from tests.cli.objects.test_active_overrides import DEPLOYMENTS, deployed
from tests.cli.steering import Person, steered

MAPS = "/api/v1/namespaces/default/configmaps"


def test_scale_prints_the_scaled_object_or_its_name(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        await deployed(api)
        admin = people(ADMIN)
        code, out, _ = await admin.fathom("scale", "deploy/web", "--replicas=3", "-o", "json")
        stored = (await api.get(f"{DEPLOYMENTS}/web")).obj
        stored["metadata"].pop("managedFields", None)
        assert (code, json.loads(out), stored["spec"]["replicas"]) == (0, stored, 3)
        words = ("--replicas=4", "--current-replicas=3", "-o", "yaml")
        code, out, _ = await admin.fathom("scale", "deploy/web", *words)
        shown = yaml.safe_load(out)
        assert (code, shown["kind"], shown["spec"]["replicas"]) == (0, "Deployment", 4)
        named = await admin.fathom("scale", "deploy/web", "--replicas=5", "-o", "name")
        assert named == (0, "deployment.apps/web\n", "")
        dry = await admin.fathom("scale", "deploy/web", "--replicas=9", "--dry-run=server")
        assert dry == (0, "deployment.apps/web scaled (server dry run)\n", "")
        assert (await api.get(f"{DEPLOYMENTS}/web")).obj["spec"]["replicas"] == 5

    steered(story, tmp_path)


def test_delete_prints_names(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        await api.post(MAPS, {"metadata": {"name": "m"}})
        await deployed(api)
        deleted = await people(ADMIN).fathom("delete", "cm/m", "deploy/web", "-o", "name")
        assert deleted == (0, "configmap/m\ndeployment.apps/web\n", "")
        assert (await api.get(f"{MAPS}/m")).status == 404

    steered(story, tmp_path)
