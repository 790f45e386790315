"""Failure and success policies of Jobs: `podFailurePolicy`, `backoffLimitPerIndex`, `successPolicy`. Pure.

Rules and messages are kube-controller-manager's.

How often an index has failed is written on its next pod. So the last failed pod of an index keeps its
finalizer until there is a next pod, or the index has failed for good: else the count would be lost with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from fathom.control.ownership import has_finalizer
from fathom.controllers.job.completion_indexes import index_of, is_indexed, number_of, parse_indexes
from fathom.controllers.pod_states import FAILED, SUCCEEDED, phase_of
from fathom.model.conditions import conditions_of
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata
from fathom.model.well_known import JOB_TRACKING_FINALIZER

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"

CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"

Action = Literal["Count", "Ignore", "FailIndex", "FailJob"]


class FailureVerdict(msgspec.Struct, frozen=True):
    """What follows from a failed pod."""

    action: Action = "Count"
    message: str = ""  # For the Job, if the Job fails because of it.


def has_failed(pod: Obj, job: Obj) -> bool:
    """A terminating pod counts as failed too, unless the Job waits for its end. A failing Job does not wait:
    a pod that was never on a node would never end."""
    if phase_of(pod) == FAILED:
        return True
    if lookup(job, "spec", "podReplacementPolicy") == "Failed" and not is_failing(job):
        return False
    return is_deleting(pod) and phase_of(pod) != SUCCEEDED


def has_target(job: Obj) -> bool:
    """The verdict is written already; running pods are only waited for."""
    return any(map(is_target, conditions_of(job)))


def is_failing(job: Obj) -> bool:
    return any(
        is_target(condition) and condition["type"] == FAILURE_TARGET for condition in conditions_of(job)
    )


def is_target(condition: Obj) -> bool:
    return condition.get("type") in {CRITERIA_MET, FAILURE_TARGET} and condition.get("status") == "True"


def was_given_up(pod: Obj) -> bool:
    """We deleted it because the Job is suspended, or runs fewer pods: it has not failed, however it ends. A
    pod that somebody else deleted keeps its finalizer until it is counted, and its index has another pod."""
    return is_deleting(pod) and not has_finalizer(pod, JOB_TRACKING_FINALIZER)


# The rule that applies to a failed pod.


def failure_verdict(job: Obj, pod: Obj) -> FailureVerdict:
    """The first rule that matches."""
    rules = lookup(job, "spec", "podFailurePolicy", "rules") or ()
    for place, rule in enumerate(rules):
        matched = _by_exit_code(rule, pod) or _by_condition(rule, pod)
        if matched:
            action = rule["action"]
            return FailureVerdict(action, f"{matched} matching {action} rule at index {place}")
    return FailureVerdict()


def _by_exit_code(rule: Obj, pod: Obj) -> str:
    wanted = rule.get("onExitCodes")
    if not wanted:
        return ""
    key = key_of(pod)
    for name, code in _exit_codes(pod):
        if wanted.get("containerName") not in (None, name):
            continue
        if (code in (wanted.get("values") or ())) == (wanted.get("operator") == "In"):
            return f"Container {name} for pod {key.namespace}/{key.name} failed with exit code {code}"
    return ""


def _exit_codes(pod: Obj) -> Iterator[tuple[str, int]]:
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in lookup(pod, "status", field) or ():
            code = lookup(container, "state", "terminated", "exitCode")
            if code:
                yield str(container.get("name")), int(code)


def _by_condition(rule: Obj, pod: Obj) -> str:
    key = key_of(pod)
    for condition in conditions_of(pod):
        for wanted in rule.get("onPodConditions") or ():
            same = (wanted.get("type"), wanted.get("status", "True"))
            if (condition.get("type"), condition.get("status")) == same:
                return f"Pod {key.namespace}/{key.name} has condition {condition['type']}"
    return ""


def job_failure_message(job: Obj, pods: Sequence[Obj]) -> str:
    """The message of the rule by which one of its pods fails the Job; '' if none does."""
    if not lookup(job, "spec", "podFailurePolicy"):
        return ""
    verdicts = (failure_verdict(job, pod) for pod in pods if has_failed(pod, job) and not was_given_up(pod))
    return next((outcome.message for outcome in verdicts if outcome.action == "FailJob"), "")


# Failures of an index.


def limit_per_index(job: Obj) -> int | None:
    limit = lookup(job, "spec", "backoffLimitPerIndex")
    return int(limit) if limit is not None and is_indexed(job) else None


def failed_indexes(job: Obj, pods: Sequence[Obj]) -> tuple[int, ...] | None:
    """Indexes that failed for good. None without a limit per index."""
    limit = limit_per_index(job)
    if limit is None:
        return None
    indexes = set(parse_indexes(str(lookup(job, "status", "failedIndexes") or "")))
    for pod in pods:
        index = index_of(pod)
        if index is None or not has_failed(pod, job) or (has_target(job) and is_deleting(pod)):
            continue  # A pod that we deleted because the Job is over may have ended either way.
        if _fails_index(job, pod, limit) and not was_given_up(pod):
            indexes.add(index)
    completions = int(lookup(job, "spec", "completions") or 0)
    return tuple(index for index in sorted(indexes) if index < completions)


def _fails_index(job: Obj, pod: Obj, limit: int) -> bool:
    action = failure_verdict(job, pod).action
    return action == "FailIndex" or (action != "Ignore" and (number_of(pod, FAILURES) or 0) >= limit)


def last_failures(job: Obj, pods: Sequence[Obj]) -> dict[int, Obj]:
    """By index, the failed pod to replace; none if its replacement exists already."""
    last: dict[int, Obj] = {}
    for pod in sorted(pods, key=_age):
        index = index_of(pod)
        if index is not None and not was_given_up(pod):
            last[index] = pod
    return {index: pod for index, pod in last.items() if has_failed(pod, job)}


def _age(pod: Obj) -> tuple[int, str, str]:
    """Orders the pods of one index by creation: each failure raises one of the two counts."""
    meta = metadata(pod)
    tries = (number_of(pod, FAILURES) or 0) + (number_of(pod, IGNORED) or 0)
    return tries, str(meta.get("creationTimestamp") or ""), str(meta.get("name"))


def delayed(job: Obj, pods: Sequence[Obj], over: Sequence[int]) -> list[Obj]:
    """Failed pods that must keep their finalizer for now. `over`: indexes that get no further pod."""
    if limit_per_index(job) is None or has_target(job):
        return []
    return [pod for index, pod in last_failures(job, pods).items() if index not in over]


def next_counts(job: Obj, before: Obj | None) -> dict[str, str]:
    """The annotations of the pod that follows this one."""
    if limit_per_index(job) is None:
        return {}
    if before is None:
        return {FAILURES: "0"}
    failures, ignored = number_of(before, FAILURES) or 0, number_of(before, IGNORED) or 0
    if failure_verdict(job, before).action == "Ignore":
        ignored += 1
    else:
        failures += 1
    return {FAILURES: str(failures), **({IGNORED: str(ignored)} if ignored else {})}


# Successes.


def met_rule(job: Obj, completed: Sequence[int]) -> int | None:
    """The position of the first rule of the success policy that these indexes meet."""
    for place, rule in enumerate(lookup(job, "spec", "successPolicy", "rules") or ()):
        named, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        wanted = set(parse_indexes(str(named))) if named is not None else set(completed)
        reached = len(wanted.intersection(completed))
        if reached >= (int(count) if count is not None else len(wanted)) and (reached or count == 0):
            return place
    return None
