"""The pods of a Job: named after it and a slot, or after it, an index and an attempt. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fathom.control.ownership import child_name, owned
from fathom.controllers.job.completion_indexes import INDEX, index_of, is_indexed
from fathom.controllers.job.plan_counts import JobTally
from fathom.controllers.job.plan_failure_policy import has_failed, last_failures, next_counts
from fathom.controllers.pod_states import has_ended
from fathom.controllers.replicaset.scale_down_order import leaving_first
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.well_known import JOB_TRACKING_FINALIZER

BURST_PODS_MAX = 500  # The most in one pass; kube-controller-manager's number.


def new_pods(
    job: Obj,
    pods: Sequence[Obj],
    occupied: Callable[[str], bool],
    job_tally: JobTally,
    missing: int,
    *,
    waiting: Collection[int] = (),
) -> list[Obj]:
    """The pods to create. `occupied`: whether a pod has this name. `waiting`: indexes that are not due
    yet."""
    number = min(missing, BURST_PODS_MAX)
    if not is_indexed(job):
        return [_pod(job, name) for name in _free(metadata(job)["name"], number, occupied)]
    taken = {index_of(pod) for pod in pods if not has_ended(pod) and not has_failed(pod, job)}
    done = {*(job_tally.indexes or ()), *(job_tally.failed_indexes or ()), *waiting}
    free = [
        index
        for index in range(int(lookup(job, "spec", "completions") or 0))
        if index not in done and index not in taken
    ]
    created, before = [], last_failures(job, pods)
    for index in free[:number]:
        (name,) = _free(f"{metadata(job)['name']}-{index}", 1, occupied)
        created.append(_pod(job, name, index, next_counts(job, before.get(index))))
    return created


def surplus_pods(job: Obj, active: Sequence[Obj], number: int) -> list[Obj]:
    """At least `number` active pods to delete: for an indexed Job also each pod without a wanted index, and
    duplicates of an index."""
    ordered = leaving_first(active, active, index_of)
    if not is_indexed(job):
        return ordered[:number]
    free = set(range(int(lookup(job, "spec", "completions") or 0)))
    needless, kept = list[Obj](), list[Obj]()
    for pod in reversed(ordered):  # Of two pods with one index the better stays.
        index = index_of(pod)
        (kept if index in free else needless).append(pod)
        free.discard(-1 if index is None else index)
    return [*reversed(needless), *reversed(kept)][: max(number, len(needless))]


def _free(stem: str, number: int, occupied: Callable[[str], bool]) -> list[str]:
    names: list[str] = []
    slot = 0
    while len(names) < number:
        name = child_name(stem, slot)
        if not occupied(name):
            names.append(name)
        slot += 1
    return names


def _pod(job: Obj, name: str, index: int | None = None, notes: Mapping[str, str] = {}) -> Obj:
    template = lookup(job, "spec", "template") or {}
    template_meta = template.get("metadata") or {}
    meta: Obj = {
        "name": name,
        "namespace": metadata(job)["namespace"],
        "labels": {**(template_meta.get("labels") or {})},
        "finalizers": [*(template_meta.get("finalizers") or ()), JOB_TRACKING_FINALIZER],
    }
    if template_meta.get("annotations"):
        meta["annotations"] = template_meta["annotations"]
    spec = template["spec"]
    if index is not None:
        meta["annotations"] = {**meta.get("annotations", {}), **notes, INDEX: str(index)}
        meta["labels"][INDEX] = str(index)
        spec = _with_index(spec, f"{metadata(job)['name']}-{index}")
    return owned({"metadata": meta, "spec": spec}, job)


def _with_index(spec: Obj, hostname: str) -> Obj:
    """Its containers get their index, and other pods can find it by hostname."""
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}

    def with_index_variable(container: Obj) -> Obj:
        env = container.get("env") or []
        if any(entry.get("name") == variable["name"] for entry in env):
            return container
        return {**container, "env": [*env, variable]}

    changed = {**spec, "hostname": spec.get("hostname") or hostname}
    for name in ("containers", "initContainers"):
        if spec.get(name):
            changed[name] = [with_index_variable(container) for container in spec[name]]
    return changed
