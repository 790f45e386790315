"""Keep the status of PodDisruptionBudgets: the API server allows or refuses evictions by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.ownership import controller_of
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD,
    REPLICA_SET,
    Primary,
    Related,
    View,
    Watch,
)
from fathom.controllers.adoption import FOR_CHILDREN, owner_key, selector_of
from fathom.controllers.ages import SeenFor
from fathom.controllers.autoscaler.scale_target import fetch_foreign, is_cached
from fathom.controllers.budget.plan import BudgetTrouble, evictions_noted, look_again_s, plan_budget
from fathom.controllers.deployment.revisions import size_of
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.pod_states import has_ended
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata, uid_of


def _covers(budget: Obj, pod: Obj) -> bool:
    return selector_of(budget).matches(labels_of(pod))


def _budgets_of(pod: Obj, view: View) -> Iterable[Key]:
    budgets = view().list("PodDisruptionBudget", str(metadata(pod).get("namespace")))
    return tuple(key_of(budget) for budget in budgets if _covers(budget, pod))


def _budgets_beside(workload: Obj, view: View) -> Iterable[Key]:
    """The budgets that cover the template of a workload that was scaled."""
    template = ((workload.get("spec") or {}).get("template") or {}).get("metadata") or {}
    budgets = view().list("PodDisruptionBudget", str(metadata(workload).get("namespace")))
    labels = template.get("labels") or {}
    return tuple(key_of(budget) for budget in budgets if selector_of(budget).matches(labels))


class DisruptionBudgets:
    name = "disruption"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(DISRUPTION_BUDGET),
        Related(POD, concerns=_budgets_of, indexes=FOR_CHILDREN),
        Related(REPLICA_SET, concerns=_budgets_beside, indexes=FOR_CHILDREN),
        Related(DEPLOYMENT, concerns=_budgets_beside),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("PodDisruptionBudget", ("spec", "status")),
        Reads("Pod", ("metadata", "status.conditions", "status.phase")),
        Reads("ReplicaSet", ("metadata.ownerReferences", "spec.replicas", "spec.template.metadata.labels")),
        Reads("Deployment", ("spec.replicas", "spec.template.metadata.labels")),
    )
    writes: ClassVar[tuple[Writes, ...]] = (Writes("PodDisruptionBudget", ("status",)),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = LeaderMinRevision(kit, DISRUPTION_BUDGET, POD)
        self._evictions = SeenFor()  # The notes of evictions in each budget.

    async def reconcile(self, key: Key) -> ReconcileResult:
        await self._floor.fetch()
        foreign = await self._fetch_foreign(key)
        view, now = self._kit.snapshot(), self._kit.now()
        budget = view.get("PodDisruptionBudget", key)
        noted = {} if budget is None else evictions_noted(budget)
        seen_s = self._evictions.seen_s(key, noted, now_ns=self._kit.monotonic_ns())
        if budget is None:
            return ReconcileResult.never()
        pods = _pods_of(view, budget)
        plan = plan_budget(
            budget,
            pods,
            lambda: expected_of(view, pods, foreign),
            now=now,
            seen_s=seen_s,
            needs=self._floor.needs,
        )
        applied = await self._kit.apply(key, plan, seen=view)
        return ReconcileResult.after(
            applied,
            in_s=look_again_s(budget, pods, now=now, seen_s=seen_s),
            why="an unconfirmed eviction expires",
        )

    async def _fetch_foreign(self, key: Key) -> dict[str, int]:
        """By UID, the sizes of owners that are not in the cache: of any kind with a `scale` subresource. They
        are fetched only if the budget is a percentage or a maxUnavailable."""
        view = self._kit.snapshot()
        budget = view.get("PodDisruptionBudget", key)
        if budget is None or isinstance(lookup(budget, "spec", "minAvailable"), int):
            return {}
        references = [controller_of(pod) for pod in _pods_of(view, budget)]
        owners = {
            str(reference.get("uid")): reference
            for reference in references
            if reference is not None and not is_cached(reference)
        }
        workloads = {
            uid: await fetch_foreign(self._kit.api, key.namespace, owners[uid]) for uid in sorted(owners)
        }
        return {
            uid: size_of(owner.workload)
            for uid, owner in workloads.items()
            if owner is not None and uid_of(owner.workload) == uid
        }


def _pods_of(view: Snapshot, budget: Obj) -> list[Obj]:
    pods = view.list("Pod", key_of(budget).namespace)
    return [pod for pod in pods if _covers(budget, pod) and not has_ended(pod)]


def expected_of(view: Snapshot, pods: Sequence[Obj], foreign: Mapping[str, int]) -> int | BudgetTrouble:
    """The sum of the sizes that the owners of these pods want, each counted once. `foreign`: sizes of owners
    that are not in the cache, by UID."""
    sizes: dict[str, int] = {}
    for pod in pods:
        reference = controller_of(pod)
        if reference is None:
            continue  # As in Kubernetes: the budget covers it, but it adds no expected count.
        uid = str(reference.get("uid"))
        owner_size = (uid, foreign[uid]) if uid in foreign else _scaled(view, pod)
        if owner_size is None:
            owner = f"{reference.get('kind')} {reference.get('name')}"
            return BudgetTrouble(
                f"the size of {owner}, which controls pod {metadata(pod)['name']}, is not known"
            )
        sizes[owner_size[0]] = owner_size[1]
    return sum(sizes.values())


def _scaled(view: Snapshot, pod: Obj) -> tuple[str, int] | None:
    """The size of the pod's Deployment, else of its ReplicaSet."""
    key = owner_key(pod, REPLICA_SET)
    replica_set = None if key is None else view.get("ReplicaSet", key)
    if replica_set is None:
        return None
    above = owner_key(replica_set, DEPLOYMENT)
    deployment = None if above is None else view.get("Deployment", above)
    owner = replica_set if deployment is None else deployment
    return str(metadata(owner)["uid"]), size_of(owner)
