"""At rest statuses are true: each is recomputed from the objects themselves.

Only for controllers that run in the scenario: each entry of `RECOUNTS` recomputes what one of them writes,
independently of its code. A new controller adds one function and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fathom.control.process import Controllers
from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.resource_names import AUTOSCALERS, BUDGETS, DEPLOYMENTS, JOBS, REPLICA_SETS, SLICES
from fathom.model.selectors import LabelSelector
from fathom.sim.checkers.jobs import mismatches as job_mismatches
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.world.invariants import RESERVATIONS, Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.world import World

PROGRESS = "workloadprogresses.fathom.dev"
ROLLOUTS = "policyrollouts.fathom.dev"
# Taints of a node that is unreachable or not ready.
SUSPICION_TAINTS = frozenset(
    {
        "fathom.dev/suspect",
        "fathom.dev/lost",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/not-ready",
    }
)
SUSPICION_CONDITIONS = frozenset({"fathom.dev/Suspect", "fathom.dev/Unreachable", "fathom.dev/Lost"})

Mismatches = Iterator[tuple[str, str, str]]  # (resource, 'namespace/name', what is wrong)


class StatusesMatchObjects(Checker):
    name = "statuses match the objects when settled"
    patience_s = 120.0  # A clock that was wrong, a list that is never answered, a node that came back.

    def settled(self, world: World) -> Iterable[str | Finding]:
        at_work = controllers_at_work(world)
        if not at_work:
            return
        agents = {name for name, process in world.engine.processes.items() if process.alive}
        yield from self.recounted(StoreFacts(world.list, agents), at_work)

    def recounted(self, store_facts: StoreFacts, at_work: Collection[str]) -> Iterable[Finding]:
        """`at_work`: the controllers whose statuses are recomputed."""
        for name, recount in RECOUNTS.items():
            if name in at_work:
                for resource, key, wrong in recount(store_facts):
                    yield Finding(f"{resource} {key}: {wrong}", (f"{resource}/{key}",))


def controllers_at_work(world: World) -> set[str]:
    running = [process.state for process in world.engine.processes.values() if process.alive]
    return {loop.name for state in running if isinstance(state, Controllers) for loop in state.loops}


class StoreFacts:
    """The store, read once. `agents`: those that run, by the names of their nodes."""

    def __init__(self, listed: Callable[[str], list[Obj]], agents: Collection[str]) -> None:
        self.list = listed
        self.agents = agents
        self.pods = listed("pods")
        self.children: dict[str, list[Obj]] = {}  # Controller's UID -> pods.
        for pod in self.pods:
            self.children.setdefault(owner_uid(pod), []).append(pod)
        self.sets = listed(REPLICA_SETS)

    def below(self, deployment: Obj) -> list[Obj]:
        """The pods of a Deployment, of all its revisions."""
        set_uids = [
            uid_of(replica_set) for replica_set in self.sets if owner_uid(replica_set) == uid_of(deployment)
        ]
        return [pod for uid in set_uids for pod in self.children.get(uid, ())]

    def size_above(self, pod: Obj) -> tuple[str, int] | None:
        """(UID, replicas) of the Deployment of a pod, or of its ReplicaSet where there is none."""
        owners = {uid_of(deployment): deployment for deployment in self.list(DEPLOYMENTS)}
        own_set = next(
            (replica_set for replica_set in self.sets if uid_of(replica_set) == owner_uid(pod)), None
        )
        owner = None if own_set is None else owners.get(owner_uid(own_set), own_set)
        return None if owner is None else (uid_of(owner), int(lookup(owner, "spec", "replicas") or 0))


def _path(obj: Obj) -> str:
    return "/".join(part for part in key_of(obj) if part)


def _is(obj: Obj, *types: str) -> bool:
    conditions = lookup(obj, "status", "conditions") or ()
    return any(
        condition.get("type") in types and condition.get("status") == "True" for condition in conditions
    )


def _is_ready(obj: Obj) -> bool:
    return _is(obj, "Ready")


def _is_live(pod: Obj) -> bool:
    return not is_deleting(pod) and lookup(pod, "status", "phase") not in TERMINAL_PHASES


def _compared(
    resource: str, obj: Obj, reported: Mapping[str, object], actual: Mapping[str, object]
) -> Mismatches:
    for name, value in actual.items():
        if (reported.get(name) or 0) != (value or 0):
            yield resource, _path(obj), f"{name} is reported as {reported.get(name)!r}, but is {value!r}"


def _generation(obj: Obj) -> dict[str, object]:
    return {"observedGeneration": metadata(obj).get("generation")}


# Workloads.


def _counts(pods: Iterable[Obj]) -> dict[str, object]:
    live = [pod for pod in pods if _is_live(pod)]
    return {"replicas": len(live), "readyReplicas": sum(_is_ready(pod) for pod in live)}


def replica_sets(store_facts: StoreFacts) -> Mismatches:
    for replica_set in store_facts.sets:
        if is_deleting(replica_set):
            continue
        actual = {**_counts(store_facts.children.get(uid_of(replica_set), ())), **_generation(replica_set)}
        yield from _compared(REPLICA_SETS, replica_set, replica_set.get("status") or {}, actual)
        wanted = int(lookup(replica_set, "spec", "replicas") or 0)
        if actual["replicas"] != wanted and not _has_failed(replica_set):
            yield REPLICA_SETS, _path(replica_set), f"it wants {wanted} pods, but has {actual['replicas']}"
        if actual["replicas"] == wanted and _has_failed(replica_set):
            yield REPLICA_SETS, _path(replica_set), "it has all its pods, but says that more are rejected"


def _has_failed(replica_set: Obj) -> bool:
    """Its ReplicaFailure condition is true: the server rejected more pods."""
    return _is(replica_set, "ReplicaFailure")


def deployments(store_facts: StoreFacts) -> Mismatches:
    for deployment in store_facts.list(DEPLOYMENTS):
        if is_deleting(deployment):
            continue
        actual = {**_counts(store_facts.below(deployment)), **_generation(deployment)}
        yield from _compared(DEPLOYMENTS, deployment, deployment.get("status") or {}, actual)


def jobs(store_facts: StoreFacts) -> Mismatches:
    for job in store_facts.list(JOBS):
        if is_deleting(job):
            continue
        pods = store_facts.children.get(uid_of(job), ())
        live = [pod for pod in pods if _is_live(pod)]
        actual = {"active": len(live), "ready": sum(_is_ready(pod) for pod in live)}
        yield from _compared(JOBS, job, job.get("status") or {}, actual)
        if live and _is(job, "Complete", "Failed"):
            yield JOBS, _path(job), "it is finished, but has running pods"
        done = int(lookup(job, "status", "succeeded") or 0) >= int(
            lookup(job, "spec", "completions") or 2**31
        )
        if done and not _is(job, "Complete"):
            yield JOBS, _path(job), "enough pods have succeeded, but it is not Complete"
        for wrong in job_mismatches(job, pods):
            yield JOBS, _path(job), wrong


def autoscalers(store_facts: StoreFacts) -> Mismatches:
    sizes = {
        _path(deployment): int(lookup(deployment, "spec", "replicas") or 0)
        for deployment in store_facts.list(DEPLOYMENTS)
    }
    for autoscaler in store_facts.list(AUTOSCALERS):
        target = f"{key_of(autoscaler).namespace}/{lookup(autoscaler, 'spec', 'scaleTargetRef', 'name')}"
        if target not in sizes or is_deleting(autoscaler):
            continue
        actual = {
            "currentReplicas": sizes[target],
            "desiredReplicas": sizes[target],
            **_generation(autoscaler),
        }
        yield from _compared(AUTOSCALERS, autoscaler, autoscaler.get("status") or {}, actual)
        if sizes[target] > int(lookup(autoscaler, "spec", "maxReplicas") or 0):
            yield (
                AUTOSCALERS,
                _path(autoscaler),
                f"its target has {sizes[target]} replicas, more than maxReplicas",
            )


def progress(resource: str) -> Callable[[StoreFacts], Mismatches]:
    def recounted(store_facts: StoreFacts) -> Mismatches:
        reports = {lookup(report, "spec", "workload", "uid"): report for report in store_facts.list(PROGRESS)}
        for workload in store_facts.list(resource):
            report = reports.get(uid_of(workload))
            if is_deleting(workload) or (report is None and owner_uid(workload)):
                continue
            if report is None:
                yield resource, _path(workload), "it has no WorkloadProgress"
                continue
            yield from _compared(PROGRESS, report, report.get("status") or {}, _generation(workload))
            current, before = (
                lookup(report, "status", "current") or {},
                lookup(report, "status", "previous") or {},
            )
            ready = int(current.get("ready") or 0) + int(before.get("ready") or 0)
            reported = {"desired": current.get("desired"), "ready": ready}
            pods = _counts(store_facts.below(workload))
            actual = {
                "desired": int(lookup(workload, "spec", "replicas") or 0),
                "ready": pods["readyReplicas"],
            }
            yield from _compared(PROGRESS, report, reported, actual)

    return recounted


# Disruption.


def budgets(store_facts: StoreFacts) -> Mismatches:
    for budget in store_facts.list(BUDGETS):
        selector = LabelSelector.from_object(lookup(budget, "spec", "selector") or {})
        space = key_of(budget).namespace
        covered = [
            pod
            for pod in store_facts.pods
            if key_of(pod).namespace == space
            and selector.matches(labels_of(pod))
            and lookup(pod, "status", "phase") not in TERMINAL_PHASES
        ]
        wanted = _wanted(store_facts, budget, covered)
        if is_deleting(budget) or wanted is None:
            continue
        expected, desired = wanted
        healthy = sum(_is_ready(pod) and not is_deleting(pod) for pod in covered)
        actual = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
            **_generation(budget),
        }
        yield from _compared(BUDGETS, budget, budget.get("status") or {}, actual)


def _wanted(store_facts: StoreFacts, budget: Obj, covered: list[Obj]) -> tuple[int, int] | None:
    """(expected pods, healthy pods required); None where a pod has no controller that says how many."""
    least, missing = lookup(budget, "spec", "minAvailable"), lookup(budget, "spec", "maxUnavailable")
    if isinstance(least, int):
        return len(covered), least
    sizes = [store_facts.size_above(pod) for pod in covered]
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


def slices(store_facts: StoreFacts) -> Mismatches:
    """Each pod that a Service selects and that has an address is in one slice, with its true conditions."""
    all_slices = store_facts.list(SLICES)
    for service in store_facts.list("services"):
        if is_deleting(service) or not lookup(service, "spec", "selector"):
            continue
        key = key_of(service)
        own_slices = [
            endpoint_slice
            for endpoint_slice in all_slices
            if key_of(endpoint_slice).namespace == key.namespace
            and labels_of(endpoint_slice).get("kubernetes.io/service-name") == key.name
        ]
        listed = sorted(
            (
                str(lookup(endpoint, "targetRef", "uid")),
                bool(lookup(endpoint, "conditions", "ready")),
                str(endpoint.get("zone") or ""),
            )
            for endpoint_slice in own_slices
            for endpoint in endpoint_slice.get("endpoints") or ()
        )
        actual = sorted(
            (uid_of(pod), _is_ready(pod) and not is_deleting(pod), _zone(store_facts, pod))
            for pod in served(store_facts, service)
        )
        if listed != actual:
            yield SLICES, _path(service), f"its slices have {listed}, its pods are {actual}"


def _zone(store_facts: StoreFacts, pod: Obj) -> str:
    node_name = lookup(pod, "spec", "nodeName")
    nodes = (node for node in store_facts.list("nodes") if key_of(node).name == node_name)
    return next((labels_of(node).get("topology.kubernetes.io/zone", "") for node in nodes), "")


def served(store_facts: StoreFacts, service: Obj) -> list[Obj]:
    selector = lookup(service, "spec", "selector") or {}
    return [
        pod
        for pod in store_facts.pods
        if key_of(pod).namespace == key_of(service).namespace
        and all(labels_of(pod).get(name) == value for name, value in selector.items())
        and lookup(pod, "status", "podIP")
        and lookup(pod, "status", "phase") not in TERMINAL_PHASES
    ]


def endpoints(store_facts: StoreFacts) -> Mismatches:
    by_path = {_path(obj): obj for obj in store_facts.list("endpoints")}
    for service in store_facts.list("services"):
        if is_deleting(service) or not lookup(service, "spec", "selector"):
            continue
        subsets = (by_path.get(_path(service)) or {}).get("subsets") or ()
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            listed = sorted(
                str(address.get("ip")) for subset in subsets for address in subset.get(field) or ()
            )
            pods = [
                pod
                for pod in served(store_facts, service)
                if not is_deleting(pod) and _is_ready(pod) == ready
            ]
            actual = sorted(str(lookup(pod, "status", "podIP")) for pod in pods)
            if listed != actual:
                yield (
                    "endpoints",
                    _path(service),
                    f"its {field} are {listed or 'none'}, its pods have {actual or 'none'}",
                )


# Nodes.


def nodes(store_facts: StoreFacts) -> Mismatches:
    """A node whose agent runs and is reachable is ready, with no taint or condition of a suspected node."""
    for node in store_facts.list("nodes"):
        name = key_of(node).name
        if name not in store_facts.agents or "fathom.dev/declare-lost" in (
            metadata(node).get("annotations") or {}
        ):
            continue
        taints = sorted(
            {str(taint.get("key")) for taint in lookup(node, "spec", "taints") or ()} & SUSPICION_TAINTS
        )
        if taints:
            yield "nodes", name, f"its agent is reachable, but it has the taint {', '.join(taints)}"
        conditions = lookup(node, "status", "conditions") or ()
        for condition in conditions:
            if condition.get("type") in SUSPICION_CONDITIONS and condition.get("status") == "True":
                yield "nodes", name, f"its agent is reachable, but its condition {condition['type']} is True"
        if not _is_ready(node):
            yield "nodes", name, "its agent is reachable, but it is not Ready"


# Policies.


def policy_rollouts(store_facts: StoreFacts) -> Mismatches:
    """A rollout that is complete or rolled back has no canary any more."""
    for rollout in store_facts.list(ROLLOUTS):
        status, generation = rollout.get("status") or {}, metadata(rollout).get("generation")
        active = {"Complete": lookup(rollout, "spec", "to"), "RolledBack": status.get("active")}
        # A status of an older spec is not final: the policy of the current one may not exist yet.
        if status.get("phase") in active and status.get("observedGeneration") == generation:
            actual = {"active": active[status["phase"]], "canary": "", "percent": 0}
            yield from _compared(ROLLOUTS, rollout, status, actual)


# Capacity.


def reservations(store_facts: StoreFacts) -> Mismatches:
    """Every active reservation of a pod belongs to one that still waits."""
    waiting = {uid_of(pod) for pod in store_facts.pods if not lookup(pod, "spec", "nodeName")}
    for reservation in store_facts.list(RESERVATIONS):
        holder = lookup(reservation, "metadata", "annotations", "fathom.dev/pod-uid")
        if (
            holder
            and (lookup(reservation, "status", "phase") or "Active") == "Active"
            and holder not in waiting
        ):
            yield RESERVATIONS, _path(reservation), "it is active, but its pod does not wait"


RECOUNTS: dict[str, Callable[[StoreFacts], Mismatches]] = {
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
