"""At rest statuses are true: each is recomputed from the objects themselves.

Only for controllers that run in the scenario: each entry of `RECOUNTS` recomputes what one of them writes,
independently of its code. A new controller adds one function and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fathom.control.process import Controllers
from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.selectors import LabelSelector
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.world.invariants import RESERVATIONS, Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.world import World

DEPLOYMENTS, REPLICA_SETS, JOBS = "deployments.apps", "replicasets.apps", "jobs.batch"
BUDGETS, SLICES = "poddisruptionbudgets.policy", "endpointslices.discovery.k8s.io"
PROGRESS, AUTOSCALERS = "workloadprogresses.fathom.dev", "horizontalpodautoscalers.autoscaling"
ROLLOUTS = "policyrollouts.fathom.dev"
# Taints of a node that is unreachable or not ready.
DOUBTS = frozenset(
    {
        "fathom.dev/suspect",
        "fathom.dev/lost",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/not-ready",
    }
)
DOUBTED = frozenset({"fathom.dev/Suspect", "fathom.dev/Unreachable", "fathom.dev/Lost"})

Wrong = Iterator[tuple[str, str, str]]  # (resource, 'namespace/name', what is wrong)


class WhatIsSaidIsSo(Checker):
    name = "what is said is so when settled"
    patience_s = 120.0  # A clock that was wrong, a list that is never answered, a node that came back.

    def settled(self, world: World) -> Iterable[str | Finding]:
        at_work = _controllers(world)
        if not at_work:
            return
        truth = Truth(world)
        for name, recount in RECOUNTS.items():
            if name in at_work:
                for resource, key, wrong in recount(truth):
                    yield Finding(f"{resource} {key}: {wrong}", (f"{resource}/{key}",))


def _controllers(world: World) -> set[str]:
    running = [one.state for one in world.engine.processes.values() if one.alive]
    return {loop.name for state in running if isinstance(state, Controllers) for loop in state.loops}


class Truth:
    """The store, read once."""

    def __init__(self, world: World) -> None:
        self.list = world.list
        self.agents = {name for name, one in world.engine.processes.items() if one.alive}
        self.pods = world.list("pods")
        self.children: dict[str, list[Obj]] = {}  # Controller's UID -> pods.
        for pod in self.pods:
            self.children.setdefault(owner_uid(pod), []).append(pod)
        self.sets = world.list(REPLICA_SETS)

    def below(self, deployment: Obj) -> list[Obj]:
        """The pods of a Deployment, of all its revisions."""
        mine = [uid_of(one) for one in self.sets if owner_uid(one) == uid_of(deployment)]
        return [pod for uid in mine for pod in self.children.get(uid, ())]

    def size_above(self, pod: Obj) -> tuple[str, int] | None:
        """(UID, replicas) of the Deployment of a pod, or of its ReplicaSet where there is none."""
        owners = {uid_of(one): one for one in self.list(DEPLOYMENTS)}
        own = next((one for one in self.sets if uid_of(one) == owner_uid(pod)), None)
        one = None if own is None else owners.get(owner_uid(own), own)
        return None if one is None else (uid_of(one), int(lookup(one, "spec", "replicas") or 0))


def _path(obj: Obj) -> str:
    return "/".join(part for part in key_of(obj) if part)


def _is(obj: Obj, *types: str) -> bool:
    conditions = lookup(obj, "status", "conditions") or ()
    return any(one.get("type") in types and one.get("status") == "True" for one in conditions)


def _is_ready(obj: Obj) -> bool:
    return _is(obj, "Ready")


def _is_live(pod: Obj) -> bool:
    return not is_deleting(pod) and lookup(pod, "status", "phase") not in TERMINAL_PHASES


def _compared(resource: str, obj: Obj, said: Mapping[str, object], true: Mapping[str, object]) -> Wrong:
    for name, value in true.items():
        if (said.get(name) or 0) != (value or 0):
            yield resource, _path(obj), f"{name} is said to be {said.get(name)}, it is {value}"


def _generation(obj: Obj) -> dict[str, object]:
    return {"observedGeneration": metadata(obj).get("generation")}


# Workloads.


def _counts(pods: Iterable[Obj]) -> dict[str, object]:
    live = [pod for pod in pods if _is_live(pod)]
    return {"replicas": len(live), "readyReplicas": sum(_is_ready(pod) for pod in live)}


def replica_sets(truth: Truth) -> Wrong:
    for one in truth.sets:
        if is_deleting(one):
            continue
        true = {**_counts(truth.children.get(uid_of(one), ())), **_generation(one)}
        yield from _compared(REPLICA_SETS, one, one.get("status") or {}, true)
        wanted = int(lookup(one, "spec", "replicas") or 0)
        if true["replicas"] != wanted and not _has_failed(one):
            yield REPLICA_SETS, _path(one), f"it wants {wanted} pods, and has {true['replicas']}"


def _has_failed(one: Obj) -> bool:
    """Its ReplicaFailure condition is true: the server rejected more pods."""
    return _is(one, "ReplicaFailure")


def deployments(truth: Truth) -> Wrong:
    for one in truth.list(DEPLOYMENTS):
        if is_deleting(one):
            continue
        true = {**_counts(truth.below(one)), **_generation(one)}
        yield from _compared(DEPLOYMENTS, one, one.get("status") or {}, true)


def jobs(truth: Truth) -> Wrong:
    for one in truth.list(JOBS):
        if is_deleting(one):
            continue
        pods = truth.children.get(uid_of(one), ())
        live = [pod for pod in pods if _is_live(pod)]
        true = {"active": len(live), "ready": sum(_is_ready(pod) for pod in live)}
        yield from _compared(JOBS, one, one.get("status") or {}, true)
        if live and _is(one, "Complete", "Failed"):
            yield JOBS, _path(one), "it is over, and has pods that run"
        done = int(lookup(one, "status", "succeeded") or 0) >= int(
            lookup(one, "spec", "completions") or 2**31
        )
        if done and not _is(one, "Complete"):
            yield JOBS, _path(one), "enough have succeeded, and it is not said to be complete"


def autoscalers(truth: Truth) -> Wrong:
    sizes = {_path(one): int(lookup(one, "spec", "replicas") or 0) for one in truth.list(DEPLOYMENTS)}
    for one in truth.list(AUTOSCALERS):
        target = f"{key_of(one).namespace}/{lookup(one, 'spec', 'scaleTargetRef', 'name')}"
        if target not in sizes or is_deleting(one):
            continue
        true = {"currentReplicas": sizes[target], "desiredReplicas": sizes[target], **_generation(one)}
        yield from _compared(AUTOSCALERS, one, one.get("status") or {}, true)
        if sizes[target] > int(lookup(one, "spec", "maxReplicas") or 0):
            yield (
                AUTOSCALERS,
                _path(one),
                f"its target has {sizes[target]} replicas, which is beyond its most",
            )


def progress(resource: str) -> Callable[[Truth], Wrong]:
    def recounted(truth: Truth) -> Wrong:
        said = {lookup(one, "spec", "workload", "uid"): one for one in truth.list(PROGRESS)}
        for workload in truth.list(resource):
            one = said.get(uid_of(workload))
            if is_deleting(workload) or (one is None and owner_uid(workload)):
                continue
            if one is None:
                yield resource, _path(workload), "nobody says how far it has come"
                continue
            yield from _compared(PROGRESS, one, one.get("status") or {}, _generation(workload))
            current, before = lookup(one, "status", "current") or {}, lookup(one, "status", "previous") or {}
            ready = int(current.get("ready") or 0) + int(before.get("ready") or 0)
            told = {"desired": current.get("desired"), "ready": ready}
            pods = _counts(truth.below(workload))
            true = {"desired": int(lookup(workload, "spec", "replicas") or 0), "ready": pods["readyReplicas"]}
            yield from _compared(PROGRESS, one, told, true)

    return recounted


# Disruption.


def budgets(truth: Truth) -> Wrong:
    for one in truth.list(BUDGETS):
        selector = LabelSelector.from_object(lookup(one, "spec", "selector") or {})
        space = key_of(one).namespace
        covered = [
            pod
            for pod in truth.pods
            if key_of(pod).namespace == space
            and selector.matches(labels_of(pod))
            and lookup(pod, "status", "phase") not in TERMINAL_PHASES
        ]
        wanted = _wanted(truth, one, covered)
        if is_deleting(one) or wanted is None:
            continue
        expected, desired = wanted
        healthy = sum(_is_ready(pod) and not is_deleting(pod) for pod in covered)
        true = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
            **_generation(one),
        }
        yield from _compared(BUDGETS, one, one.get("status") or {}, true)


def _wanted(truth: Truth, budget: Obj, covered: list[Obj]) -> tuple[int, int] | None:
    """(expected pods, healthy pods required); None where a pod has no controller that says how many."""
    least, missing = lookup(budget, "spec", "minAvailable"), lookup(budget, "spec", "maxUnavailable")
    if isinstance(least, int):
        return len(covered), least
    sizes = [truth.size_above(pod) for pod in covered]
    if None in sizes:
        return None
    whole = sum(dict(size for size in sizes if size is not None).values())
    if missing is not None:
        return whole, max(0, whole - _share(missing, whole))
    return whole, _share(least or 1, whole)


def _share(part: int | str, whole: int) -> int:
    """Percentages are rounded up."""
    return part if isinstance(part, int) else -(-int(part.removesuffix("%")) * whole // 100)


# Services.


def slices(truth: Truth) -> Wrong:
    """Each pod that a Service selects and that has an address is in one slice, with its true conditions."""
    every = truth.list(SLICES)
    for one in truth.list("services"):
        if is_deleting(one) or not lookup(one, "spec", "selector"):
            continue
        key = key_of(one)
        mine = [
            each
            for each in every
            if key_of(each).namespace == key.namespace
            and labels_of(each).get("kubernetes.io/service-name") == key.name
        ]
        found = sorted(
            (
                str(lookup(each, "targetRef", "uid")),
                bool(lookup(each, "conditions", "ready")),
                str(each.get("zone") or ""),
            )
            for part in mine
            for each in part.get("endpoints") or ()
        )
        true = sorted(
            (uid_of(pod), _is_ready(pod) and not is_deleting(pod), _zone(truth, pod))
            for pod in served(truth, one)
        )
        if found != true:
            yield SLICES, _path(one), f"its endpoints are {found}, its pods {true}"


def _zone(truth: Truth, pod: Obj) -> str:
    where = lookup(pod, "spec", "nodeName")
    nodes = (node for node in truth.list("nodes") if key_of(node).name == where)
    return next((labels_of(node).get("topology.kubernetes.io/zone", "") for node in nodes), "")


def served(truth: Truth, service: Obj) -> list[Obj]:
    selector = lookup(service, "spec", "selector") or {}
    return [
        pod
        for pod in truth.pods
        if key_of(pod).namespace == key_of(service).namespace
        and all(labels_of(pod).get(name) == value for name, value in selector.items())
        and lookup(pod, "status", "podIP")
        and lookup(pod, "status", "phase") not in TERMINAL_PHASES
    ]


def endpoints(truth: Truth) -> Wrong:
    there = {_path(one): one for one in truth.list("endpoints")}
    for one in truth.list("services"):
        if is_deleting(one) or not lookup(one, "spec", "selector"):
            continue
        subsets = (there.get(_path(one)) or {}).get("subsets") or ()
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            found = sorted(str(each.get("ip")) for part in subsets for each in part.get(field) or ())
            pods = [pod for pod in served(truth, one) if not is_deleting(pod) and _is_ready(pod) == ready]
            true = sorted(str(lookup(pod, "status", "podIP")) for pod in pods)
            if found != true:
                yield "endpoints", _path(one), f"its {field} are {found or 'none'}, of pods {true or 'none'}"


# Nodes.


def nodes(truth: Truth) -> Wrong:
    """A node whose agent runs and is reachable is ready and has no taint or condition of doubt left."""
    for node in truth.list("nodes"):
        name = key_of(node).name
        if name not in truth.agents or "fathom.dev/declare-lost" in (metadata(node).get("annotations") or {}):
            continue
        taints = sorted({str(one.get("key")) for one in lookup(node, "spec", "taints") or ()} & DOUBTS)
        if taints:
            yield "nodes", name, f"its agent is heard, and it has the taint {', '.join(taints)}"
        conditions = lookup(node, "status", "conditions") or ()
        for one in conditions:
            if one.get("type") in DOUBTED and one.get("status") == "True":
                yield "nodes", name, f"its agent is heard, and it is said to be {one['type']}"
        if not _is_ready(node):
            yield "nodes", name, "its agent is heard, and it is not said to be ready"


# Policies.


def policy_rollouts(truth: Truth) -> Wrong:
    """A rollout that is complete or rolled back has no canary any more."""
    for one in truth.list(ROLLOUTS):
        status, generation = one.get("status") or {}, metadata(one).get("generation")
        active = {"Complete": lookup(one, "spec", "to"), "RolledBack": status.get("active")}
        # A status of an older spec is not final: the policy of the current one may not exist yet.
        if status.get("phase") in active and status.get("observedGeneration") == generation:
            true = {"active": active[status["phase"]], "canary": "", "percent": 0}
            yield from _compared(ROLLOUTS, one, status, true)


# Capacity.


def reservations(truth: Truth) -> Wrong:
    """Every active reservation of a pod belongs to one that still waits."""
    waiting = {uid_of(pod) for pod in truth.pods if not lookup(pod, "spec", "nodeName")}
    for one in truth.list(RESERVATIONS):
        holder = lookup(one, "metadata", "annotations", "fathom.dev/pod-uid")
        if holder and (lookup(one, "status", "phase") or "Active") == "Active" and holder not in waiting:
            yield RESERVATIONS, _path(one), "it holds room for nobody"


RECOUNTS: dict[str, Callable[[Truth], Wrong]] = {
    "replicasets": replica_sets,
    "deployments": deployments,
    "jobs": jobs,
    "deployment-progress": progress(DEPLOYMENTS),
    "autoscaling": autoscalers,
    "disruption": budgets,
    "endpointslices": slices,
    "endpoints": endpoints,
    "nodes": nodes,
    "policy-rollouts": policy_rollouts,
    "repair-reservations": reservations,
}
