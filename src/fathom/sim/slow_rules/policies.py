"""Which policy a pod is placed by: of the rollouts that are for it, the narrowest decides, and a fixed share
of workloads is its canary."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from fathom.model.objects import Obj
from fathom.sim.slow_rules.cluster import labels, namespace

BUILT_IN = "builtin"


def policy_of(pod: Obj, tenant: str, rollouts: Iterable[Obj], policies: Iterable[Obj]) -> str:
    """Its name."""
    known = {policy["metadata"]["name"] for policy in policies}
    concerned = [rollout for rollout in rollouts if is_for(rollout, pod, tenant)]
    for rollout in sorted(concerned, key=_order):
        chosen = policy_by(rollout, pod)
        if chosen in known:
            return chosen
    return BUILT_IN


def policy_by(rollout: Obj, pod: Obj) -> str:
    """'': this rollout sets none."""
    spec, status = rollout.get("spec") or {}, rollout.get("status") or {}
    if rollout["metadata"].get("deletionTimestamp"):
        return ""
    number = zlib.crc32(f"{namespace(pod)}/{workloads(pod)[-1]}".encode()) % 100
    if status.get("canary") and number < (status.get("percent") or 0):
        return str(status["canary"])
    before = status.get("active") or ("" if status.get("phase") else spec.get("from"))
    return str(before or "")


def workloads(pod: Obj) -> list[str]:
    """Its controller, then the Deployment behind that; or the pod itself."""
    owners = [one["name"] for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    if not owners:
        return [pod["metadata"]["name"]]
    ending = f"-{labels(pod).get('pod-template-hash')}"
    behind = [owners[0][: -len(ending)]] if owners[0].endswith(ending) else []
    return [owners[0], *behind]


def is_for(rollout: Obj, pod: Obj, tenant: str) -> bool:
    scope = _scope(rollout)
    return (
        tenant in (scope.get("tenants") or [tenant])
        and namespace(pod) in (scope.get("namespaces") or [namespace(pod)])
        and any(name in (scope.get("workloads") or [name]) for name in workloads(pod))
    )


def _order(rollout: Obj) -> tuple[bool, bool, bool, str]:
    """The narrowest first."""
    scope = _scope(rollout)
    wide = [not scope.get(field) for field in ("workloads", "namespaces", "tenants")]
    return (wide[0], wide[1], wide[2], rollout["metadata"]["name"])


def _scope(rollout: Obj) -> Obj:
    return (rollout.get("spec") or {}).get("scope") or {}
