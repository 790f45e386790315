"""ResourceQuotas: `status.used` equals the sum of the objects, and never grows beyond the limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.api.admission.quota import QUOTAS, drift, is_counted
from fathom.kinds.reservation import CHARGED_WITH, RESERVATIONS
from fathom.model import view
from fathom.model.objects import Key, Obj, lookup
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.podresources import amounts
from fathom.model.quantity import ZERO
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World


HOLDING = frozenset({None, "", "Active"})


class QuotaIsTheSum(Checker):
    """Checks every ResourceQuota after every whole commit: when the next one begins, or at rest. One that has
    just begun has no sum to compare."""

    name = "ledger equals the sum of its pods"

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Obj]] = {QUOTAS: {}}  # What any quota counts, by resource.
        self._revision = 0
        self._moved: set[str] = set()  # Namespaces that the commit at `_revision` touched.

    def commit(self, change: Seen) -> Found:
        problem = self._check() if change.revision != self._revision else None
        self._revision = change.revision
        kept = self._objects.setdefault(change.resource, {})
        if change.new is None:
            kept.pop(change.key, None)
        else:
            kept[change.key] = change.new
        self._moved.add(change.key.namespace)
        return problem

    def settled(self, world: World) -> Iterable[str | Finding]:
        problem = self._check()
        return () if problem is None else (problem,)

    def _check(self) -> Finding | None:
        moved, self._moved = self._moved, set()
        for key, quota in self._objects[QUOTAS].items():
            if key.namespace not in moved or not is_counted(quota):
                continue
            wrong = self._recounted(key, quota) or drift(quota, _View(self._objects))
            if wrong:
                name, (written, counted) = next(iter(wrong.items()))
                message = f"ResourceQuota {key.name} has {name} {written}, the sum is {counted}"
                return Finding(message, (f"{QUOTAS}/{key.namespace}/{key.name}",))
        return None

    def _recounted(self, key: Key, quota: Obj) -> dict[str, tuple[object, object]]:
        """Recount pods and CPU independently: the server's way of counting may be wrong."""
        used = amounts(lookup(quota, "status", "used") or {})
        if lookup(quota, "spec", "scopes") or lookup(quota, "spec", "scopeSelector") or not used:
            return {}
        pods = [
            pod
            for pod_key, pod in self._objects.get("pods", {}).items()
            if pod_key.namespace == key.namespace and lookup(pod, "status", "phase") not in TERMINAL_PHASES
        ]
        reserved = [
            amounts(lookup(reservation, "spec", "resources") or {})
            for reservation_key, reservation in self._objects.get(RESERVATIONS, {}).items()
            if reservation_key.namespace == key.namespace and _is_charged(reservation)
        ]
        places = sum(resources["pods"].value if "pods" in resources else 1 for resources in reserved)
        kept_milli = sum(resources["cpu"].milli for resources in reserved if "cpu" in resources)
        actual = {
            "pods": len(pods) + places,
            "requests.cpu": sum(_cpu_milli(pod) for pod in pods) + kept_milli,
        }
        reported = {"pods": used["pods"].value if "pods" in used else None}
        reported["requests.cpu"] = used["requests.cpu"].milli if "requests.cpu" in used else None
        return {
            name: (reported[name], actual[name])
            for name in actual
            if reported[name] not in {None, actual[name]}
        }


def _is_charged(reservation: Obj) -> bool:
    """The reservation holds room, and not for a pod that was charged when it was created."""
    holds = lookup(reservation, "spec", "nodeName") and lookup(reservation, "status", "phase") in HOLDING
    return bool(holds) and CHARGED_WITH not in (lookup(reservation, "metadata", "annotations") or ())


def _cpu_milli(pod: Obj) -> int:
    """Of main containers only: pods of our scenarios have no others that count."""
    requests = [lookup(container, "resources", "requests") or {} for container in pod["spec"]["containers"]]
    return sum(amounts(request)["cpu"].milli for request in requests if "cpu" in request)


class NoQuotaOverItsLimit(Checker):
    """Use never grows beyond the limit; a limit that is lowered below the use is no violation."""

    name = "no quota over its limit"
    resources = frozenset({QUOTAS})

    def commit(self, change: Seen) -> Found:
        if change.new is None or change.old is None:
            return None
        if lookup(change.old, "spec") != lookup(change.new, "spec") or not is_counted(change.old):
            return None
        before, after = (amounts(lookup(obj, "status", "used") or {}) for obj in (change.old, change.new))
        for name, hard in amounts(lookup(change.new, "spec", "hard") or {}).items():
            if after.get(name, ZERO) > max(before.get(name, ZERO), hard):
                return f"ResourceQuota {change.key.name} allows {name} {hard}, but {after[name]} is used"
        return None


class _View:
    """The objects, in the form that admission's `drift` reads."""

    def __init__(self, objects: dict[str, dict[Key, Obj]]) -> None:
        self._objects = objects

    def get(self, resource: str, key: Key) -> view.Seen | None:
        obj = self._objects.get(resource, {}).get(key)
        return None if obj is None else view.Seen(obj, 0)

    def list(self, resource: str, namespace: str | None = None) -> list[view.Seen]:
        pairs = sorted(self._objects.get(resource, {}).items(), key=lambda pair: pair[0])
        return [view.Seen(obj, 0) for key, obj in pairs if namespace is None or key.namespace == namespace]

    def revision(self, resource: str) -> int:
        return 0
