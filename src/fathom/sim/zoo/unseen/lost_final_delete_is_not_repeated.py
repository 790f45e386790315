"""The agent does not check that a pod is gone after its final delete: if that request was lost, the pod is
being deleted for ever."""

from __future__ import annotations

from fathom.agent.reporter import Reporting
from fathom.sim.zoo import rewrite

ROOM = "agent"
WITHOUT_EFFECT = (
    "The committer does the same before: a delete without grace that got no answer is done only when a read"
    " finds no pod, and is otherwise sent again. Without that guard too, the agent's next look at the pod"
    " still repeats it half a minute later. `removed-though-requests-are-lost` shows what is left."
)

rewrite(
    Reporting._let_go,
    'return ReconcileResult.after(applied, in_s=LET_GO_S, why="to check that the pod is gone")',
    "return ReconcileResult.after(applied)",
)
