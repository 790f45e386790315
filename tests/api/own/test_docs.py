"""What docs/capacity.md shows can be applied as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from tests.api.harness import Api, tell

from fathom.api.resources import RegistryResources

PAGE = Path(__file__).parents[3] / "docs" / "capacity.md"


def test_every_object_on_the_page_is_accepted_without_a_warning(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 6

    async def story(api: Api) -> None:
        resources = RegistryResources(api.core.registry)
        for block in blocks:
            obj = yaml.safe_load(block)
            resource = resources.named(obj["apiVersion"], obj["kind"]) or ""
            path = resources.path(resource, obj["metadata"].get("namespace", ""))
            answer = await api.post(f"{path}?fieldValidation=Strict", obj)
            assert answer.status == 201, answer.obj
            # An override of a workload that is not there is warned of.
            assert obj["kind"] == "SchedulerOverride" or "warning" not in answer.headers

    tell(story, tmp_path)
