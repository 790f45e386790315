"""The plugin in docs/admission.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.api.admission.world import World, create, obj, pod, refusal

from fathom.api.admission.chain import Chain
from fathom.model.audit import Verdict
from fathom.model.objects import with_metadata

DOCS = Path(__file__).parents[3] / "docs" / "admission.md"


def test_the_documented_plugin_adds_its_label_and_is_named_for_it() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(source.strip().splitlines()) <= 20
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    chain = Chain([namespace["TeamLabel"]()])
    world = World(
        obj("Namespace", "default", metadata={"labels": {"team": "storage"}}), obj("Namespace", "bare")
    )
    admitted = create(chain, world, pod())
    assert admitted.obj == with_metadata(pod(), labels={"team": "storage"})
    assert admitted.verdicts == (Verdict("TeamLabel", mutated=("metadata.labels[team]",)),)
    assert refusal(chain, world, obj("Pod", "p", namespace="bare")).message == (
        "pods \"p\" is forbidden: namespace bare has no label 'team'"
    )
