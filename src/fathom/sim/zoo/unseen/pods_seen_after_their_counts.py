"""A Deployment whose pods come into its view after the status that counts them is not looked at again: its
rollout stops there."""

from __future__ import annotations

from fathom.controllers.deployment.controller import Deployments
from fathom.sim.zoo import rewrite

ROOM = "controllers/deployment"
NOT_FOUND_BECAUSE = (
    "It takes a new leader that hears of the counts of a ReplicaSet before it hears of its pods, in the "
    "middle of a rollout, and then of nothing else. No run of the scenarios with deaf successors came to it."
)

rewrite(
    Deployments.reconcile,
    (
        "        if _differs(facts):\n"
        "            return ReconcileResult.after("
        'applied, in_s=DIFFERS_S, why="its ReplicaSets count other pods")\n'
    ),
    "",
)
