"""A subject that is not as wanted never gets the answer that all is well.

What is as wanted is judged here from the store alone, without the code that explains: counts of ready pods on
reachable nodes, completions, endpoints, objects that are named and do not exist. The explanation of each
subject that falls short must say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from fathom.explain.questions import why
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, uid_of
from fathom.model.resource_names import DEPLOYMENTS, JOBS, REPLICA_SETS
from fathom.model.times import moment_ns
from fathom.sim.checkers.workloads import owner_uid
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world_evidence import world_evidence

if TYPE_CHECKING:
    from fathom.sim.world.world import World


class NoTroubleIsHidden(Checker):
    name = "a subject that is not as wanted never gets 'all is well'"
    patience_s = 120.0  # As with statuses: a clock that was wrong, a node that came back.

    def __init__(self, *kinds: str) -> None:
        """Of these kinds; without any, of all."""
        self._kinds = kinds or (*TROUBLED,)

    def settled(self, world: World) -> Iterable[str | Finding]:
        for resource in self._kinds:
            for obj in world.list(resource):
                trouble = TROUBLED[resource](world, obj)
                if trouble and (finding := _hidden(world, resource, obj, trouble)):
                    yield finding


def _hidden(world: World, resource: str, obj: Obj, trouble: str) -> Finding | None:
    world.sometimes(f"a {resource} that is not as wanted is explained")
    answer = why(world_evidence(world, resource, key_of(obj)))
    path = f"{resource}/{'/'.join(part for part in key_of(obj) if part)}"
    if answer.as_wanted:
        return Finding(f"{path}: {trouble}, but the answer is: {answer.summary}", (path,))
    if not answer.cause:
        return Finding(f"{path}: {trouble}, and the answer has no cause: {answer.summary}", (path,))
    return None


# What falls short, in words; '' if it is as wanted.


def _deployment(world: World, deployment: Obj) -> str:
    wanted = int(lookup(deployment, "spec", "replicas") or 0)
    sets = [each for each in world.list(REPLICA_SETS) if owner_uid(each) == uid_of(deployment)]
    newest = [each for each in sets if _image(each) == _image(deployment)]
    ready = sum(_ready(world, uid_of(each)) for each in newest)
    old = sum(_ready(world, uid_of(each)) for each in sets if each not in newest)
    if ready < wanted:
        return f"{ready} of {wanted} pods of its template are ready"
    return f"{old} pods of older templates are left" if old else ""


def _image(workload: Obj) -> object:
    """What scenarios change in a template."""
    containers = lookup(workload, "spec", "template", "spec", "containers") or [{}]
    return containers[0].get("image")


def _replica_set(world: World, replica_set: Obj) -> str:
    wanted, ready = int(lookup(replica_set, "spec", "replicas") or 0), _ready(world, uid_of(replica_set))
    return f"{ready} of {wanted} pods are ready" if ready < wanted else ""


def _ready(world: World, owner: str) -> int:
    reachable = {key_of(node).name for node in world.list("nodes") if is_true(node, "Ready")}
    return sum(
        owner_uid(pod) == owner
        and not is_deleting(pod)
        and is_true(pod, "Ready")
        and lookup(pod, "spec", "nodeName") in reachable
        for pod in world.list("pods")
    )


def _job(world: World, job: Obj) -> str:
    if is_true(job, "Complete"):
        return ""
    running = sum(
        owner_uid(pod) == uid_of(job) and is_true(pod, "Ready") and not is_deleting(pod)
        for pod in world.list("pods")
    )
    return "" if running else "it is not complete, and none of its pods runs"


def _service(world: World, service: Obj) -> str:
    selector = lookup(service, "spec", "selector") or {}
    if not selector:
        return ""
    ready = any(
        key_of(pod).namespace == key_of(service).namespace
        and all(labels_of(pod).get(name) == value for name, value in selector.items())
        and is_true(pod, "Ready")
        and not is_deleting(pod)
        for pod in world.list("pods")
    )
    return "" if ready else "no pod that it selects is ready"


def _node(world: World, node: Obj) -> str:
    if not is_true(node, "Ready"):
        return "it is not ready"
    return "it is cordoned" if lookup(node, "spec", "unschedulable") else ""


def _pod(world: World, pod: Obj) -> str:
    if lookup(pod, "status", "phase") == "Succeeded" or is_true(pod, "Ready"):
        return ""
    return f"its phase is {lookup(pod, 'status', 'phase')}, and it is not ready"


def _autoscaler(world: World, autoscaler: Obj) -> str:
    target = lookup(autoscaler, "spec", "scaleTargetRef") or {}
    workload = Key(key_of(autoscaler).namespace, str(target.get("name")))
    if target.get("kind") != "Deployment" or world.get(DEPLOYMENTS, workload) is not None:
        return ""
    return f"its target {workload.name} does not exist"


def _budget(world: World, budget: Obj) -> str:
    labels, wanted = lookup(budget, "spec", "selector", "matchLabels"), lookup(budget, "spec", "minAvailable")
    pods = [
        pod
        for pod in world.list("pods", key_of(budget).namespace)
        if labels and labels.items() <= labels_of(pod).items() and not is_deleting(pod)
    ]
    ready = sum(is_true(pod, "Ready") for pod in pods)
    return (
        f"{ready} of {wanted} pods are ready" if pods and isinstance(wanted, int) and ready < wanted else ""
    )


def _rollout(world: World, rollout: Obj) -> str:
    phase, policy = lookup(rollout, "status", "phase"), str(lookup(rollout, "spec", "to"))
    if phase == "RolledBack":
        return "it was rolled back"
    exists = world.get("schedulingpolicies.fathom.dev", Key("", policy)) is not None
    return "" if exists or phase == "Complete" else f"its policy {policy} does not exist"


def _override(world: World, override: Obj) -> str:
    status = override.get("status") or {}
    end_ns = moment_ns(status.get("expiresAt"))
    if lookup(status, "approval") is not None and lookup(status, "approval", "approved") is not True:
        return "nobody has approved it"
    if status.get("residue"):
        return "effects of it are left"
    if end_ns is not None and end_ns <= world.engine.epoch_ns + world.engine.now_ns:
        return "it has ended"
    declined = [each for each in status.get("acknowledgements") or () if each.get("state") == "Declined"]
    if declined:
        return f"{declined[0].get('controller')} has declined it"
    kind, _, name = str(lookup(override, "spec", "target")).partition("/")
    resource = {"deployment": DEPLOYMENTS, "replicaset": REPLICA_SETS, "job": JOBS, "node": "nodes"}.get(kind)
    place = Key("" if kind == "node" else key_of(override).namespace, name)
    return f"its target {kind}/{name} does not exist" if resource and not world.get(resource, place) else ""


TROUBLED: dict[str, Callable[[World, Obj], str]] = {
    DEPLOYMENTS: _deployment,
    REPLICA_SETS: _replica_set,
    JOBS: _job,
    "services": _service,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "poddisruptionbudgets.policy": _budget,
    "policyrollouts.fathom.dev": _rollout,
    OVERRIDES: _override,
    "nodes": _node,
    "pods": _pod,
}


def troubles(world: World) -> Iterator[tuple[str, Key, str]]:
    """All subjects that are not as wanted, for scenarios that end in trouble."""
    for resource, troubled in TROUBLED.items():
        for obj in world.list(resource):
            if trouble := troubled(world, obj):
                yield resource, key_of(obj), trouble
