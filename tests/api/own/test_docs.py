"""What the pages about capacity and overrides show can be applied as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.api.harness import Api, tell

from fathom.api.resources import RegistryResources

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(("page", "least"), [("capacity.md", 6), ("overrides.md", 2)])
def test_every_object_on_the_page_is_accepted_without_a_warning(
    page: str, least: int, tmp_path: Path
) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    objects = [obj for block in blocks if "kind" in (obj := yaml.safe_load(block))]
    assert len(objects) >= least

    async def story(api: Api) -> None:
        resources = RegistryResources(api.core.registry)
        for obj in objects:
            resource = resources.named(obj["apiVersion"], obj["kind"]) or ""
            path = resources.path(resource, obj["metadata"].get("namespace", ""))
            answer = await api.post(f"{path}?fieldValidation=Strict", obj)
            assert answer.status == 201, answer.obj
            # An override of a workload that is not there is warned of.
            assert obj["kind"] == "SchedulerOverride" or "warning" not in answer.headers

    tell(story, tmp_path)
