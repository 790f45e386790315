"""Events of the workload controllers about what they did, in kube-controller-manager's words. Pure."""

from __future__ import annotations

from fathom.client.outcomes import Committed, Rejected
from fathom.control.commit import NOT_SENT
from fathom.control.event_writer import WARNING, EventChange, EventReport
from fathom.control.plan import Create, Delete, Patch, WriteStatus
from fathom.control.watches import AUTOSCALER, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, WatchedKind
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, key_of, lookup, metadata

# No refusal: the action was not sent, or the object exists already.
NO_NEWS = NOT_SENT | {"AlreadyExists"}


def of_replica_set(change: EventChange) -> EventReport | None:
    return _of_pods(REPLICA_SET, change)


def of_deployment(change: EventChange) -> EventReport | None:
    """Which ReplicaSet was scaled, from what to what; and a rollback to an older revision."""
    action = change.action
    if not isinstance(change.outcome, Committed):
        return _create_failed(change)
    if isinstance(action, Create) and action.kind == REPLICA_SET.name:
        name, size = metadata(action.obj)["name"], lookup(action.obj, "spec", "replicas")
        return _scaled(change.subject, name, 0, size)
    if not isinstance(action, Patch):
        return None
    if action.target.kind == REPLICA_SET.name:
        before = change.before.get(REPLICA_SET.name, action.target.key) or {}
        after = lookup(action.patch, "spec", "replicas")
        return _scaled(change.subject, action.target.key.name, _size(before), after)
    if action.target.kind == DEPLOYMENT.name and lookup(action.patch, "spec", "template"):
        return EventReport(DEPLOYMENT, change.subject, "DeploymentRollback", f"Rolled {change.why}", WARNING)
    return None


def _create_failed(change: EventChange) -> EventReport | None:
    action, outcome = change.action, change.outcome
    if not isinstance(action, Create) or not isinstance(outcome, Rejected) or outcome.reason in NO_NEWS:
        return None
    message = f'Failed to create new replica set "{key_of(action.obj).name}": {outcome.message}'
    return EventReport(DEPLOYMENT, change.subject, "ReplicaSetCreateError", message, WARNING)


def of_job(change: EventChange) -> EventReport | None:
    action = change.action
    if not (isinstance(action, Patch | WriteStatus) and action.target.kind == JOB.name):
        return _of_pods(JOB, change)
    if not isinstance(change.outcome, Committed):
        return None
    after = action.status if isinstance(action, WriteStatus) else action.patch.get("status") or {}
    before = _statuses(change.subject)
    for condition in after.get("conditions") or ():
        kind, status = condition.get("type"), condition.get("status")
        if kind in _OF_JOBS and status != before.get(kind, "False"):
            return _OF_JOBS[kind](change.subject, condition)
    return None


def of_autoscaler(change: EventChange) -> EventReport | None:
    """The target was changed, but the Event is about the autoscaler, where people look for it."""
    action = change.action
    if not isinstance(action, Patch):
        return None
    if action.target.kind == AUTOSCALER.name:
        return _unable(change, action.patch.get("status") or {})
    size, reason = lookup(action.patch, "spec", "replicas"), change.because
    if isinstance(change.outcome, Committed):
        return EventReport(
            AUTOSCALER, change.subject, "SuccessfulRescale", f"New size: {size}; reason: {reason}"
        )
    if isinstance(change.outcome, Rejected) and change.outcome.reason not in NOT_SENT:
        message = f"New size: {size}; reason: {reason}; error: {change.outcome.message}"
        return EventReport(AUTOSCALER, change.subject, "FailedRescale", message, WARNING)
    return None


def _unable(change: EventChange, status: Obj) -> EventReport | None:
    """What keeps it from working, when that is new: no such target, no metrics."""
    before = {str(previous.get("type")): previous for previous in conditions_of(change.subject)}
    for type_ in ("AbleToScale", "ScalingActive"):
        condition = find_condition(status.get("conditions") or (), type_)
        if (
            condition is None
            or condition.get("status") != "False"
            or condition.get("reason") == "ScalingDisabled"
        ):
            continue
        previous = before.get(type_) or {}
        if (previous.get("status"), previous.get("reason")) != ("False", condition.get("reason")):
            message = change.because or str(condition.get("message"))
            return EventReport(AUTOSCALER, change.subject, str(condition.get("reason")), message, WARNING)
    return None


def of_node(change: EventChange) -> EventReport | None:
    """The node is not ready any more. (The agent itself reports that it is ready.)"""
    action = change.action
    if not isinstance(action, WriteStatus | Patch) or not isinstance(change.outcome, Committed):
        return None
    status = action.status if isinstance(action, WriteStatus) else action.patch.get("status") or {}
    ready = find_condition(status.get("conditions") or (), "Ready")
    if ready is None or ready.get("status") == "True" or _statuses(change.subject).get("Ready") != "True":
        return None
    name = key_of(change.subject).name
    return EventReport(NODE, change.subject, "NodeNotReady", f"Node {name} status is now: NodeNotReady")


def of_eviction(change: EventChange) -> EventReport | None:
    action = change.action
    if not isinstance(action, Delete) or not isinstance(change.outcome, Committed):
        return None
    pod = change.before.get(POD.name, action.target.key)
    if pod is None:
        return None
    where = "/".join(action.target.key)
    return EventReport(POD, pod, "TaintManagerEviction", f"Marking for deletion Pod {where}: {change.why}")


def _of_pods(kind: WatchedKind, change: EventChange) -> EventReport | None:
    action, outcome, owner = change.action, change.outcome, change.subject
    if isinstance(action, Create) and action.kind == POD.name:
        if isinstance(outcome, Committed):
            return EventReport(kind, owner, "SuccessfulCreate", f"Created pod: {key_of(action.obj).name}")
        if isinstance(outcome, Rejected) and outcome.reason not in NO_NEWS:
            return EventReport(kind, owner, "FailedCreate", f"Error creating: {outcome.message}", WARNING)
    if isinstance(action, Delete) and action.target.kind == POD.name and isinstance(outcome, Committed):
        return EventReport(kind, owner, "SuccessfulDelete", f"Deleted pod: {action.target.key.name}")
    return None


def _scaled(deployment: Obj, name: str, before: int, after: object) -> EventReport | None:
    if not isinstance(after, int) or after == before:
        return None
    way = "up" if after > before else "down"
    message = f"Scaled {way} replica set {name} from {before} to {after}"
    return EventReport(DEPLOYMENT, deployment, "ScalingReplicaSet", message)


def _size(replica_set: Obj) -> int:
    return int(lookup(replica_set, "spec", "replicas") or 0)


def _statuses(obj: Obj) -> dict[str, str]:
    return {str(condition.get("type")): str(condition.get("status")) for condition in conditions_of(obj)}


def _failed(job: Obj, condition: Obj) -> EventReport:
    return EventReport(JOB, job, str(condition.get("reason")), str(condition.get("message")), WARNING)


def _completed(job: Obj, condition: Obj) -> EventReport:
    return EventReport(JOB, job, "Completed", "Job completed")


def _suspended(job: Obj, condition: Obj) -> EventReport:
    if condition.get("status") == "True":
        return EventReport(JOB, job, "Suspended", "Job suspended")
    return EventReport(JOB, job, "Resumed", "Job resumed")


_OF_JOBS = {"Failed": _failed, "Complete": _completed, "Suspended": _suspended}
