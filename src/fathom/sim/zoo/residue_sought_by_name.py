"""56. The proof of an override's end looks for pods whose annotation has the override's name, not for what is
charged to its UID: where somebody has removed the annotation, it proves that nothing is left, and the pod is
on the override's account for ever."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.cache.snapshot import Snapshot
from fathom.controllers.overrides import plan_end
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.overrides.facts import OverrideFacts
from fathom.kinds.scheduler_override import USED_OVERRIDES, SchedulerOverride
from fathom.model.objects import Obj, metadata
from fathom.model.pod_phase import is_terminal
from fathom.sim.zoo import put_back

SCENARIOS = ("others-cordons-and-marks",)
BREAKS = "no effect of an override is left after its proof"


def has_the_name(pod: Obj, override: SchedulerOverride) -> bool:
    marks = str((metadata(pod).get("annotations") or {}).get(USED_OVERRIDES) or "")
    names = [entry.strip().partition("@")[0] for entry in marks.split(",")]
    return "/".join(override.metadata.key) in names and not is_terminal(pod)


def by_name(self: Any, override: SchedulerOverride, view: Snapshot, fetched: OverrideFacts) -> OverrideFacts:
    facts, pods = RIGHT(self, override, view, fetched), view.list("Pod", override.metadata.namespace)
    placements = tuple(pod for pod in pods if has_the_name(pod, override))
    return msgspec.structs.replace(facts, placements=placements)


RIGHT = Overrides._collect
put_back(Overrides, "_collect", by_name)
put_back(plan_end, "is_placement", has_the_name)
