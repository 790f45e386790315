"""WorkloadProgress counts are possible: they count pods of the named generation, no stage exceeds the one
before it, and the previous generation stays on record."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from fathom.controllers.deployment.revisions import template_of
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.sim.checkers.statuses import PROGRESS
from fathom.sim.checkers.workloads import PODS, owner_uid
from fathom.sim.world.invariants import Checker, Found, Seen

# The checker's own list, so that a stage that the code forgets is noticed.
STAGES = ("admitted", "queued", "scheduled", "bound", "starting", "ready", "serving")


class ProgressIsOfItsGeneration(Checker):
    name = "progress counts pods of the generation it names"
    resources = frozenset({PODS, REPLICA_SETS, DEPLOYMENTS, PROGRESS})

    def __init__(self) -> None:
        self._pods: dict[str, set[str]] = defaultdict(set)  # Owner's UID -> all pods that it ever had.
        # Deployment's UID -> ReplicaSet's UID -> its templates: all that it ever had.
        self._sets: dict[str, dict[str, list[Obj]]] = defaultdict(dict)
        self._asked: dict[tuple[str, int], Obj] = {}  # Deployment, generation -> template.

    def commit(self, change: Seen) -> Found:
        new = change.new
        if new is None:
            return None
        if change.resource == PROGRESS:
            return (
                _check_order(new)
                or _check_conditions(new)
                or _check_previous(change.old, new)
                or self._check_count(new)
            )
        self._follow(change.resource, new)
        return None

    def _follow(self, resource: str, obj: Obj) -> None:
        if resource == PODS:
            self._pods[owner_uid(obj)].add(uid_of(obj))
        elif resource == DEPLOYMENTS:
            self._asked.setdefault((uid_of(obj), int(metadata(obj).get("generation") or 0)), template_of(obj))
        else:
            templates = self._sets[owner_uid(obj)].setdefault(uid_of(obj), [])
            if (template := template_of(obj)) not in templates:
                templates.append(template)

    def _check_count(self, progress: Obj) -> Found:
        """It counts more pods than were ever created of that revision. (Deleted ones may still count.)"""
        uid, current = str(lookup(progress, "spec", "workload", "uid")), _current(progress)
        template = self._asked.get((uid, int(current.get("generation") or 0)))
        if template is None:
            return None
        set_uids = [set_uid for set_uid, templates in self._sets[uid].items() if template in templates]
        created, counted = (
            sum(len(self._pods[set_uid]) for set_uid in set_uids),
            int(current.get("admitted") or 0),
        )
        return (
            None
            if counted <= created
            else f"it counts {counted} pods of its generation, but {created} were created"
        )


def _current(progress: Obj | None) -> Obj:
    return lookup(progress, "status", "current") or {}


def _check_order(progress: Obj) -> Found:
    counts = [(stage, int(_current(progress).get(stage) or 0)) for stage in STAGES]
    for (stage, many), (further, more) in pairwise(counts):
        if more > many:
            return f"{more} pods are {further}, but only {many} are {stage}"
    return None


def _check_conditions(progress: Obj) -> Found:
    """Conditions that all pods exist, are bound or ready are true only with as many as desired."""
    current = _current(progress)
    desired, admitted, bound, ready = (
        int(current.get(name) or 0) for name in ("desired", "admitted", "bound", "ready")
    )
    conditions = {
        condition.get("type"): condition for condition in lookup(progress, "status", "conditions") or ()
    }
    for type_, count in (("Bound", bound), ("Ready", ready)):
        if (conditions.get(type_) or {}).get("status") == "True" and count < desired:
            return f"condition {type_} is True with {count} of {desired} desired pods"
    placed = (conditions.get("SchedulingRetrying") or {}).get("reason") == "AllPlaced"
    if placed and (bound < admitted or admitted < desired):
        return f"it says AllPlaced, but {bound} of {admitted} pods are bound, and {desired} are desired"
    return None


def _check_previous(old: Obj | None, new: Obj) -> Found:
    was, now = (int(_current(progress).get("generation") or 0) for progress in (old, new))
    kept = int(lookup(new, "status", "previous", "generation") or 0)
    if was and was < now and kept != was:
        return f"generation {now} follows {was}, but status.previous has {kept or 'none'}"
    return None
