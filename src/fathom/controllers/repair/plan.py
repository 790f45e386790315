"""What is left behind, and what is done about it. Pure.

    clear                                                   repaired
      a reservation that has expired, or whose pod is gone    released, then removed
      or has a node without it
      two reservations for one intent                         the younger is released
      a pod bound to a node that does not exist, or that is   set to Failed, and removed at once:
      terminating and never had one, or is on one that        no agent is left to end it
      people declared out of service
      a pod that is marked as evicted, and nobody deletes it  the mark is taken back
    ambiguous                                               proposed, and done when a person approves
      a terminating pod on a node that is not heard from      it may still run there
      a terminating object held by a foreign finalizer        its controller may still have to clean up
        (a reservation holds its room until then)

Nothing here races a bind under way: a release or removal names the revision that was read, and a bind expects
its reservation at the revision it has seen. Of the two, the store lets one pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.cache.needs import NoOlderThan
from fathom.control.plan import NOTHING, Create, Delete, Patch, Plan, target, write_status
from fathom.controllers.node_health.plan_evictions import OUT_OF_SERVICE
from fathom.controllers.repair.plan_proposals import STRANDED, is_unheard, overdue, plan_finalizers, proposal
from fathom.kinds.reservation import HOLDER, HOLDER_UID, HOLDING, VOID, Reservation
from fathom.kinds.shape import read
from fathom.kinds.workload_progress import REPAIR_COMPLETE
from fathom.model.conditions import DISRUPTION_TARGET, conditions_of, find_condition, is_true, set_condition
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.times import moment_ns

# A void reservation is kept for a while, for people who look into what happened.
VOID_KEPT_S = 60.0
# Longer than a new node takes to appear in our view.
VANISHED_S = 40.0
# Whoever marks a pod as evicted deletes it next, or crashes in between. kube-controller-manager waits as
# long.
MARK_STALE_S = 120.0

LOOSE_TOLD = 5
POD_NAME, POD_UID = HOLDER, HOLDER_UID


def plan_reservation(
    reservation: Obj, pod: Obj | None, twins: Sequence[Obj], *, now_ns: int, now: str, void_s: float = 0.0
) -> Plan:
    """`pod`: the pod with the holder's name now, as the server has it; None if there is none. `void_s`: for
    how long a void reservation has been void."""
    parsed = read(Reservation, reservation)
    if is_deleting(reservation):
        return NOTHING
    if parsed.status.phase in VOID:
        return _removed(reservation, void_s)
    if _expired(parsed, now_ns):
        return _voided(reservation, "Expired", f"it expired at {parsed.spec.expires_at}", now)
    if _is_orphaned(reservation, pod):
        return _voided(reservation, "Released", "its pod is gone", now)
    if parsed.status.phase in HOLDING and _is_pod_bound(reservation, pod):
        return _voided(reservation, "Released", "its pod was bound without it", now)
    if _is_younger(reservation, twins):
        return _voided(reservation, "Released", "the same intent has an older reservation", now)
    return NOTHING


def _expired(reservation: Reservation, now_ns: int) -> bool:
    expires_ns = moment_ns(reservation.spec.expires_at)
    return expires_ns is not None and now_ns >= expires_ns and reservation.status.phase in HOLDING


def _is_orphaned(reservation: Obj, pod: Obj | None) -> bool:
    """A reservation that names no pod belongs to its owner; the garbage collector deletes it with that."""
    wanted = lookup(reservation, "metadata", "annotations", POD_UID)
    return bool(wanted) and (pod is None or uid_of(pod) != wanted or is_terminal(pod))


def _is_pod_bound(reservation: Obj, pod: Obj | None) -> bool:
    """A binding that names its reservation makes it Bound in the same commit: a reservation that still holds
    was not named. (If our view of it is older than that binding, our write fails by its revision.)"""
    named = lookup(reservation, "metadata", "annotations", POD_UID)
    return bool(named) and pod is not None and bool(lookup(pod, "spec", "nodeName"))


def _is_younger(reservation: Obj, twins: Sequence[Obj]) -> bool:
    live = [twin for twin in twins if read(Reservation, twin).status.phase not in VOID]
    oldest = min(live, key=lambda twin: (_created_at(twin), key_of(twin)), default=reservation)
    return uid_of(oldest) != uid_of(reservation)


def _created_at(obj: Obj) -> str:
    return str(metadata(obj).get("creationTimestamp") or "")


def _voided(reservation: Obj, phase: str, why: str, now: str) -> Plan:
    status = {
        "phase": phase,
        "observedGeneration": metadata(reservation).get("generation"),
        "conditions": [
            {
                "type": "Held",
                "status": "False",
                "reason": phase,
                "message": why,
                "lastTransitionTime": now,
                "observedGeneration": metadata(reservation).get("generation"),
            }
        ],
    }
    # No report: it gives room up, so it waits for what the plan needs.
    patch = Patch(target("Reservation", reservation), {"status": status}, subresource="status")
    return Plan(patches=(patch,), why=why)


def void_since(reservation: Obj) -> str | None:
    """The timestamp from which on a void reservation is kept; None: it is not void."""
    if read(Reservation, reservation).status.phase not in VOID:
        return None
    conditions = lookup(reservation, "status", "conditions") or [{}]
    return str(conditions[-1].get("lastTransitionTime") or _created_at(reservation))


def _removed(reservation: Obj, void_s: float) -> Plan:
    if void_s < VOID_KEPT_S:
        return Plan(why="it holds no capacity any more, and is kept for a minute")
    return Plan(
        deletes=(Delete(target("Reservation", reservation)),),
        needs=(NoOlderThan(FRESH_S, ("Reservation",)),),
        why="it no longer holds capacity",
    )


# Pods.


def plan_pod(
    pod: Obj, node: Obj | None, *, node_is_gone: bool, now_ns: int, now: str, marked_s: float = 0.0
) -> Plan:
    """For a pod that makes no headway. `node_is_gone`: the server itself says so. `marked_s`: for how long it
    has been marked as evicted, and not deleted."""
    where = str(lookup(pod, "spec", "nodeName") or "")
    handled = _only_held(pod) and is_terminal(pod)  # All that can be done about it is done.
    if where and node_is_gone and not handled:
        why = f"it is bound to node {where}, which does not exist"
        return _ended(pod, why, conditions=_disrupted(pod, now))
    if not where and is_deleting(pod) and not is_terminal(pod):
        return _ended(pod, "it is being deleted and was never bound to a node")
    if node is not None and is_deleting(pod) and not handled and _is_out_of_service(node):
        return _ended(pod, f"it is being deleted, and node {where} is tainted out-of-service")
    if marked_s >= MARK_STALE_S:
        return _unmarked(pod, now)
    if not overdue(pod, now_ns=now_ns):
        return NOTHING
    if node is None or not is_unheard(node) or _only_held(pod):
        return plan_finalizers("Pod", pod, now_ns=now_ns)
    since = metadata(pod)["deletionTimestamp"]
    why = f"it should have been gone by {since}, but node {where} is unreachable: it may still run there"
    return Plan(creates=(Create("RepairProposal", proposal(pod, "Pod", STRANDED, why)),), why=why)


def _only_held(pod: Obj) -> bool:
    """No agent has to end it any more: only finalizers keep it."""
    return is_deleting(pod) and metadata(pod).get("deletionGracePeriodSeconds") == 0


def _ended(pod: Obj, why: str, **status_fields: Sequence[Obj]) -> Plan:
    """No other component will report that it has ended: a Job may wait for that."""
    status = {"status": {"phase": "Failed", **status_fields}}
    patch = Patch(target("Pod", pod), status, subresource="status", destructive=True)
    return Plan(
        patches=() if is_terminal(pod) else (patch,),
        deletes=(Delete(target("Pod", pod), grace_s=0),),
        needs=(NoOlderThan(FRESH_S, ("Node", "Pod")),),
        why=why,
    )


def _disrupted(pod: Obj, now: str) -> list[Obj]:
    return set_condition(
        conditions_of(pod),
        type=DISRUPTION_TARGET,
        status="True",
        reason="DeletionByPodGC",
        message="PodGC: node no longer exists",
        now=now,
    )


def marked_since(pod: Obj) -> str | None:
    """Since when it is marked as evicted; None where it is not, or where it goes."""
    mark = find_condition(conditions_of(pod), DISRUPTION_TARGET) or {}
    if mark.get("status") != "True" or is_deleting(pod) or is_terminal(pod):
        return None
    return str(mark.get("lastTransitionTime") or _created_at(pod))


def _unmarked(pod: Obj, now: str) -> Plan:
    mark = find_condition(conditions_of(pod), DISRUPTION_TARGET) or {}
    conditions = set_condition(
        conditions_of(pod),
        type=DISRUPTION_TARGET,
        status="False",
        reason=str(mark.get("reason") or "NotDeleted"),
        message=f"nobody has deleted the pod within {MARK_STALE_S:.0f} seconds",
        now=now,
    )
    patch = Patch(target("Pod", pod), {"status": {"conditions": conditions}}, subresource="status")
    return Plan(patches=(patch,), why="it is marked as evicted, but nobody deletes it")


def began_at(pod: Obj) -> str:
    return str(lookup(pod, "status", "startTime") or _created_at(pod))


def waits_for_node_s(age_s: float) -> float:
    """How long a pod of this age whose node is not in our view is left alone: we may not have seen the node
    yet."""
    return max(0.0, VANISHED_S - age_s)


def _is_out_of_service(node: Obj) -> bool:
    """By Kubernetes' taint, with which people declare that the machine is off; a ready node is not off."""
    taints = lookup(node, "spec", "taints") or ()
    return not is_true(node, "Ready") and any(taint.get("key") == OUT_OF_SERVICE for taint in taints)


# The condition of a workload.


def plan_complete(progress: Obj, loose: Sequence[str], *, now: str) -> Plan:
    """`loose`: what was left behind of the workload, as messages. Written for the generation that the
    progress is about: a rollback waits for that one."""
    generation = int(lookup(progress, "status", "observedGeneration") or 0)
    if not generation:
        return NOTHING
    conditions = set_condition(
        conditions_of(progress),
        type=REPAIR_COMPLETE,
        status="False" if loose else "True",
        reason="Repairing" if loose else "NothingLeft",
        message="; ".join(sorted(loose)[:LOOSE_TOLD]),
        observed_generation=generation,
        now=now,
    )
    statuses = write_status("WorkloadProgress", progress, {"conditions": conditions})
    return Plan(statuses=statuses, why="; ".join(sorted(loose)[:LOOSE_TOLD]) or "nothing is left to repair")


def loose_ends(
    reservations: Sequence[Obj], pods: Sequence[Obj], proposals: Sequence[Obj], *, now_ns: int
) -> list[str]:
    """Of one workload: reservations without a pod to hold for, and proposals that wait for a person."""
    alive = {uid_of(pod) for pod in pods}
    messages = []
    for reservation in reservations:
        parsed, holder = (
            read(Reservation, reservation),
            lookup(reservation, "metadata", "annotations", POD_UID),
        )
        if parsed.status.phase in HOLDING and (_expired(parsed, now_ns) or (holder and holder not in alive)):
            messages.append(
                f"reservation {key_of(reservation).name} has expired or lost its pod, but holds capacity"
            )
    for proposed in proposals:
        if str(lookup(proposed, "status", "phase") or "") in {"", "Proposed", "Approved"}:
            messages.append(f"proposal {key_of(proposed).name} waits for approval")
    return messages
