"""Room to replace pods: a Deployment whose template changes may need one pod more for a while.

Where it may not do without any of its pods, it creates the new one first: a ResourceQuota must allow it.
"""

from __future__ import annotations

from fathom.explain.why import commands
from fathom.explain.why.answer import Change
from fathom.explain.why.case import PodCase
from fathom.explain.why.quota_refusals import QUOTAS
from fathom.explain.why.refused import QUOTA_ADMIN
from fathom.model.objects import Obj, key_of, lookup

PODS_FIELD = "pods"


def room_to_replace(case: PodCase) -> Change | None:
    """The quota to raise before a changed template makes a pod; None: none stands in the way."""
    kind, owner = commands.template_owner(case)
    if kind != "Deployment" or owner is None or _may_do_without(owner):
        return None
    for quota in case.evidence.objects.list(QUOTAS, case.key.namespace):
        hard, used = (lookup(quota, *path, PODS_FIELD) for path in (("spec", "hard"), ("status", "used")))
        needed = int(used or 0) + _not_created(owner) + 1
        if hard is not None and needed > int(hard):
            return _raised(quota, str(needed))
    return None


def _not_created(deployment: Obj) -> int:
    """Pods that it lacks, because of the quota perhaps: they take new room first, as they are without the
    change."""
    wanted, there = lookup(deployment, "spec", "replicas"), lookup(deployment, "status", "replicas")
    return max(0, int(1 if wanted is None else wanted) - int(there or 0))


def _may_do_without(deployment: Obj) -> bool:
    """Whether it may remove an old pod before it creates a new one."""
    strategy = lookup(deployment, "spec", "strategy") or {}
    if strategy.get("type") == "Recreate":
        return True
    unavailable = str(lookup(strategy, "rollingUpdate", "maxUnavailable") or "25%")
    if not unavailable.endswith("%"):
        return unavailable != "0"
    replicas = lookup(deployment, "spec", "replicas")
    return int(unavailable[:-1]) * int(1 if replicas is None else replicas) >= 100


def _raised(quota: Obj, pods: str) -> Change:
    namespace, name = key_of(quota)
    patch = {"spec": {"hard": {PODS_FIELD: pods}}}
    return Change(
        f"raise pods to {pods} in ResourceQuota {name}",
        commands.merge_patch("resourcequota", name, patch, namespace=namespace),
        QUOTA_ADMIN,
    )
