"""Keep the status of PodDisruptionBudgets: from it the eviction of a pod is allowed or refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from fathom.cache.snapshot import Snapshot
from fathom.client.api import Resource
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.owning import controller_of
from fathom.control.watches import DEPLOYMENT, POD, REPLICA_SET, Kind, Primary, Related, View, Watch
from fathom.controllers.adopting import FOR_CHILDREN, owner_key, selector_of
from fathom.controllers.floor import Floor
from fathom.controllers.plan_disruption import Trouble, look_again_s, plan_budget
from fathom.controllers.podstates import has_ended
from fathom.controllers.revisions import size_of
from fathom.model.objects import Key, Obj, key_of, labels_of, metadata

BUDGET = Kind("PodDisruptionBudget", Resource("policy", "v1", "poddisruptionbudgets"))


def _covers(budget: Obj, pod: Obj) -> bool:
    return selector_of(budget).matches(labels_of(pod))


def _budgets_of(pod: Obj, view: View) -> Iterable[Key]:
    budgets = view().list("PodDisruptionBudget", str(metadata(pod).get("namespace")))
    return tuple(key_of(budget) for budget in budgets if _covers(budget, pod))


def _budgets_beside(workload: Obj, view: View) -> Iterable[Key]:
    """Of a workload that was scaled: whose template they cover."""
    template = ((workload.get("spec") or {}).get("template") or {}).get("metadata") or {}
    budgets = view().list("PodDisruptionBudget", str(metadata(workload).get("namespace")))
    labels = template.get("labels") or {}
    return tuple(key_of(budget) for budget in budgets if selector_of(budget).matches(labels))


class DisruptionBudgets:
    name = "disruption"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(BUDGET),
        Related(POD, concerns=_budgets_of, indexes=FOR_CHILDREN),
        Related(REPLICA_SET, concerns=_budgets_beside, indexes=FOR_CHILDREN),
        Related(DEPLOYMENT, concerns=_budgets_beside),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = Floor(kit, BUDGET, POD)

    async def reconcile(self, key: Key) -> Again:
        await self._floor.fetch()
        view, now = self._kit.snapshot(), self._kit.now()
        budget = view.get("PodDisruptionBudget", key)
        if budget is None:
            return Again.never()
        pods = [pod for pod in view.list("Pod", key.namespace) if _covers(budget, pod) and not has_ended(pod)]
        plan = plan_budget(budget, pods, lambda: expected_of(view, pods), now=now, needs=self._floor.needs)
        applied = await self._kit.apply(key, plan, seen=view)
        return Again.after(
            applied, in_s=look_again_s(budget, pods, now=now), why="an eviction was not confirmed"
        )


def expected_of(view: Snapshot, pods: Sequence[Obj]) -> int | Trouble:
    """What the owners of these pods want, each counted once."""
    sizes: dict[str, int] = {}
    for pod in pods:
        reference = controller_of(pod)
        if reference is None:
            continue  # As with Kubernetes: it is covered, but nobody says how many of it there should be.
        found = _scaled(view, pod)
        if found is None:
            owner = f"{reference.get('kind')} {reference.get('name')}"
            return Trouble(f"{owner}, which controls {metadata(pod)['name']}, has no size that is known")
        uid, size = found
        sizes[uid] = size
    return sum(sizes.values())


def _scaled(view: Snapshot, pod: Obj) -> tuple[str, int] | None:
    """The Deployment above a pod, else its ReplicaSet: whose number counts."""
    key = owner_key(pod, REPLICA_SET)
    replica_set = None if key is None else view.get("ReplicaSet", key)
    if replica_set is None:
        return None
    above = owner_key(replica_set, DEPLOYMENT)
    deployment = None if above is None else view.get("Deployment", above)
    owner = replica_set if deployment is None else deployment
    return str(metadata(owner)["uid"]), size_of(owner)
