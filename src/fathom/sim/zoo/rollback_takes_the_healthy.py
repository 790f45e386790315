"""18. A rollout or a rollback removes the old replicas before the new ones are healthy."""

from __future__ import annotations

from fathom.control.plan import Patch
from fathom.controllers.deployment import plan
from fathom.controllers.deployment.plan import DeploymentFacts
from fathom.controllers.deployment.revisions import Sets, size_of
from fathom.model.objects import Obj
from fathom.sim.zoo import put_back

SCENARIOS = ("rollouts",)
BREAKS = "never below minimum available"


def at_once(deployment: Obj, sets: Sets, around: DeploymentFacts) -> tuple[Patch, ...]:
    sized = plan._sized
    return tuple(patch for old in sets.old if size_of(old) for patch in sized(deployment, old, 0))


put_back(plan, "_shrunk", at_once)
