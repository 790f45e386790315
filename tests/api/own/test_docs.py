"""What the pages about capacity and overrides show can be applied as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.api.harness import Api, tell

from fathom.api.resources import RegistryResources
from fathom.kinds.override_changes import (
    ALL_HOLD,
    BREAK_GLASS,
    CHANGES,
    EXCLUSIVE,
    HIGH,
    LARGEST,
    UNITED,
)

MERGED = {
    ALL_HOLD: "hold together",
    UNITED: "are united",
    LARGEST: "the larger one holds",
    EXCLUSIVE: "contradict each other",
}

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(("page", "least"), [("capacity.md", 6), ("overrides.md", 3)])
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


@pytest.mark.parametrize("change", CHANGES)
def test_the_page_about_overrides_has_every_change_with_what_the_table_says(change: str) -> None:
    lines = (DOCS / "overrides.md").read_text().splitlines()
    (row,) = [line for line in lines if re.match(rf"\|[^|]*`{change}`", line)]
    _, _, targets, longest, verb, risk, merged, _ = (cell.strip() for cell in row.split("|"))
    rule = CHANGES[change]
    hours = rule.control_class.hours_max
    assert targets == ("workloads" if "workload" in rule.control_class.targets else "infrastructure")
    assert longest == (f"{hours // 24} days" if hours > 24 else f"{hours}h")
    assert verb == f"`{rule.verb}`"
    assert (risk == "high") == (rule.risk == HIGH and rule.control_class != BREAK_GLASS)
    assert merged == MERGED[rule.merge]
