"""53. A controller counts the duration of an override on its own clock, from when it first saw it, and does
not ask for the end that the server stamped: after a restart it honours what has ended for everybody else."""

from __future__ import annotations

from typing import Any

from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.override_pauses import WorkloadPause
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.decision import considered
from fathom.model.objects import Obj, key_of, lookup, uid_of
from fathom.model.times import duration_ns
from fathom.sim.zoo import put_back

SCENARIOS = ("overrides-are-edited",)
BREAKS = "what an override pauses goes on after its end"


def on_its_own_clock(self: Any, view: Any, deployment: Obj) -> WorkloadPause | None:
    now_ns, first_seen_ns = self._kit.now_ns(), self.__dict__.setdefault("_first_seen_ns", {})
    for obj in view.list("SchedulerOverride", key_of(deployment).namespace):
        lasts_ns = duration_ns(str(lookup(obj, "spec", "expiresAfter"))) or 0
        until_ns = first_seen_ns.setdefault(uid_of(obj), now_ns) + lasts_ns
        if lookup(obj, "spec", "changes", "pauseRollout") and now_ns < until_ns:
            return WorkloadPause(key_of(obj).name, until_ns, (considered(OVERRIDES, obj),))
    return None


put_back(Deployments, "_pause", on_its_own_clock)
