"""State at rest: Jobs are complete, Endpoints are right, and no leftovers remain outside the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from fathom.model.conditions import is_true
from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of
from fathom.sim.world.invariants import Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.world import World

Look = Callable[["World"], Iterable[str | Finding]]


class WhenSettled(Checker):
    """An invariant that is one function of the world at rest."""

    patience_s = 90.0  # A clock that was wrong, or a list that is never answered, delays things for a minute.

    def __init__(self, name: str, look: Look) -> None:
        self.name = name
        self._look = look

    def settled(self, world: World) -> Iterable[str | Finding]:
        return self._look(world)


# Jobs.


def unfinished_jobs(world: World) -> Iterable[Finding]:
    pods = world.list("pods")
    for job in world.list("jobs.batch"):
        key, wanted = key_of(job), int(lookup(job, "spec", "completions") or 1)
        succeeded = int(lookup(job, "status", "succeeded") or 0)
        path = f"jobs.batch/{key.namespace}/{key.name}"
        # More is allowed: work may be started twice, when the controller could not know of the first start.
        if succeeded < wanted:
            yield Finding(f"Job {key.name} needs {wanted} successes, but counts {succeeded}", (path,))
        if lookup(job, "status", "uncountedTerminatedPods"):
            yield Finding(f"Job {key.name} still has uncounted pods", (path,))
        unreleased = [
            key_of(pod).name for pod in pods if _is_of(pod, job) and metadata(pod).get("finalizers")
        ]
        if unreleased:
            yield Finding(f"{', '.join(unreleased)} of Job {key.name} still have finalizers", (path,))


def _is_of(pod: Obj, owner: Obj) -> bool:
    return any(reference["uid"] == uid_of(owner) for reference in metadata(pod).get("ownerReferences") or ())


# Endpoints.


def untrue_endpoints(world: World) -> Iterable[Finding]:
    pods = world.list("pods")
    for service in world.list("services"):
        key, selector = key_of(service), lookup(service, "spec", "selector") or {}
        if not selector:
            continue
        ready = [pod for pod in pods if _is_served(pod, key.namespace, selector)]
        wanted = sorted(str(lookup(pod, "status", "podIP")) for pod in ready)
        endpoints = world.get("endpoints", key)
        subsets = (endpoints or {}).get("subsets") or []
        addresses = sorted(address["ip"] for subset in subsets for address in subset.get("addresses") or ())
        if addresses != wanted:
            path = f"endpoints/{key.namespace}/{key.name}"
            yield Finding(
                f"Endpoints {key.name} has {addresses or 'no address'}, ready pods have {wanted or 'none'}",
                (path,),
            )


def _is_served(pod: Obj, namespace: str, selector: dict[str, str]) -> bool:
    labels = labels_of(pod)
    selected = all(labels.get(name) == value for name, value in selector.items())
    present = key_of(pod).namespace == namespace and not is_deleting(pod)
    return present and selected and is_true(pod, "Ready")


# Objects outside the cluster.


def leaked_disks(world: World) -> Iterable[Finding]:
    claims = {f"disk-{uid_of(claim)}" for claim in world.list("configmaps")}
    for disk in world.list("secrets", "cloud"):
        name = key_of(disk).name
        if name not in claims:
            yield Finding(f"{name} belongs to a claim that is gone", (f"secrets/cloud/{name}",))


def claims_without_disk(world: World) -> Iterable[Finding]:
    disks = {key_of(disk).name for disk in world.list("secrets", "cloud")}
    for claim in world.list("configmaps", "default"):
        if "fathom.dev/claim" in labels_of(claim) and f"disk-{uid_of(claim)}" not in disks:
            name = key_of(claim).name
            yield Finding(f"claim {name} has no disk", (f"configmaps/default/{name}",))


def claims_that_stay(world: World) -> Iterable[Finding]:
    for claim in world.list("configmaps", "default"):
        if is_deleting(claim):
            name = key_of(claim).name
            yield Finding(f"claim {name} is in deletion, but is not removed", (f"configmaps/default/{name}",))
