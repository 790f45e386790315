"""What is left behind, and what is done about it. Pure.

    clear                                                   repaired
      a reservation whose time is over, or whose pod is gone  released, then removed
      or has a place without it
      two reservations for one intent                         the younger is released
      a pod bound to a node that is not there                 removed at once: nobody is left to end it
    ambiguous                                               proposed, and done when a person approves
      a pod that is going, on a node that cannot be heard     it may still run there
      an object that is going, held by a foreign finalizer    somebody may still have to clean up

Nothing here races a bind under way: what is released or removed is named with the revision it was read at,
and a bind expects its reservation at the revision it has seen. Of the two, the store lets one pass.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from fathom.cache.freshness import NoOlderThan
from fathom.control.plan import NOTHING, Create, Delete, Plan, WriteStatus, target, write_status
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.own import HOLDING, VOID, Reservation, moment_ns, read
from fathom.model.own.capacity import HOLDER, HOLDER_UID

FRESH_S = 10.0
SECOND_NS = 1_000_000_000
# A void reservation is kept for a while, for people who look what happened.
VOID_KEPT_S = 60.0
# Far beyond any time of grace: who is still there is held by something.
STUCK_S = 600.0
# Longer than it takes to hear of a node that has just been made.
VANISHED_S = 40.0

# Finalizers whose owners are here and alive: they need no proposal.
KNOWN = ("kubernetes", "foregroundDeletion", "orphan")
# What may be wrong with an object, in a word, and what would be done about it.
STRANDED, HELD = "TerminatingOnSilentNode", "HeldByFinalizers"
ACTIONS = {STRANDED: "Delete", HELD: "RemoveFinalizer"}
# Condition of a WorkloadProgress.
COMPLETE = "RepairComplete"
LOOSE_TOLD = 5
POD_NAME, POD_UID = HOLDER, HOLDER_UID


def plan_reservation(
    reservation: Obj, pod: Obj | None, twins: Sequence[Obj], *, now_ns: int, now: str
) -> Plan:
    """`pod`: who has the holder's name now, as the server says; None where there is nobody."""
    held = read(Reservation, reservation)
    if is_deleting(reservation):
        return NOTHING
    if held.status.phase in VOID:
        return _removed(reservation, now_ns)
    if _expired(held, now_ns):
        return _voided(reservation, "Expired", f"its time was over at {held.spec.expires_at}", now)
    if _is_orphaned(reservation, pod):
        return _voided(reservation, "Released", "its pod is gone", now)
    if held.status.phase in HOLDING and _has_a_place(reservation, pod):
        return _voided(reservation, "Released", "its pod has a place without it", now)
    if _is_younger(reservation, twins):
        return _voided(reservation, "Released", "the same intent has an older reservation", now)
    return NOTHING


def _expired(held: Reservation, now_ns: int) -> bool:
    expires_ns = moment_ns(held.spec.expires_at)
    return expires_ns is not None and now_ns >= expires_ns and held.status.phase in HOLDING


def _is_orphaned(reservation: Obj, pod: Obj | None) -> bool:
    """One that names no pod belongs to its owner, with which the collector takes it."""
    wanted = lookup(reservation, "metadata", "annotations", POD_UID)
    return bool(wanted) and (pod is None or uid_of(pod) != wanted or _has_ended(pod))


def _has_a_place(reservation: Obj, pod: Obj | None) -> bool:
    """A binding that names its reservation makes it Bound in the same commit: one that still holds was not
    named. (If our view of it is older than that binding, what we write names a revision that is past.)"""
    named = lookup(reservation, "metadata", "annotations", POD_UID)
    return bool(named) and pod is not None and bool(lookup(pod, "spec", "nodeName"))


def _has_ended(pod: Obj) -> bool:
    return lookup(pod, "status", "phase") in {"Succeeded", "Failed"}


def _is_younger(reservation: Obj, twins: Sequence[Obj]) -> bool:
    live = [each for each in twins if read(Reservation, each).status.phase not in VOID]
    oldest = min(live, key=lambda each: (_made(each), key_of(each)), default=reservation)
    return uid_of(oldest) != uid_of(reservation)


def _made(obj: Obj) -> str:
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
    return Plan(statuses=(WriteStatus(target("Reservation", reservation), status),), why=why)


def _removed(reservation: Obj, now_ns: int) -> Plan:
    said = lookup(reservation, "status", "conditions") or [{}]
    since_ns = moment_ns(said[-1].get("lastTransitionTime")) or moment_ns(_made(reservation)) or 0
    if now_ns - since_ns < VOID_KEPT_S * SECOND_NS:
        return NOTHING
    return Plan(
        deletes=(Delete(target("Reservation", reservation)),),
        needs=(NoOlderThan(FRESH_S, ("Reservation",)),),
        why="it holds nothing any more",
    )


# Pods.


def plan_pod(pod: Obj, node: Obj | None, *, node_is_gone: bool, now_ns: int) -> Plan:
    """`node_is_gone`: the server says so itself. Of a pod that is going nowhere."""
    where = str(lookup(pod, "spec", "nodeName") or "")
    if not where:
        return NOTHING
    if node_is_gone:
        return Plan(
            deletes=(Delete(target("Pod", pod), grace_s=0),),
            needs=(NoOlderThan(FRESH_S, ("Node", "Pod")),),
            why=f"it is bound to node {where}, which is not there",
        )
    if node is None or not overdue(pod, now_ns=now_ns) or not _is_unheard(node):
        return NOTHING
    why = f"it should be gone, but node {where} cannot be heard: it may still run there"
    return Plan(creates=(Create("RepairProposal", proposal(pod, "Pod", STRANDED, why)),), why=why)


def waits_for_node_s(pod: Obj, *, now_ns: int) -> float:
    """How long a pod whose node is not in our view is left alone: we may not have heard of the node yet."""
    since_ns = moment_ns(str(lookup(pod, "status", "startTime") or _made(pod))) or 0
    return max(0.0, VANISHED_S - (now_ns - since_ns) / SECOND_NS)


def overdue(obj: Obj, *, now_ns: int) -> bool:
    """Going for much longer than it was given."""
    deadline_ns = moment_ns(metadata(obj).get("deletionTimestamp"))
    return deadline_ns is not None and now_ns - deadline_ns > STUCK_S * SECOND_NS


def _is_unheard(node: Obj) -> bool:
    return any(
        each.get("type") == "Ready" and each.get("status") == "Unknown"
        for each in lookup(node, "status", "conditions") or ()
    )


# Finalizers.


def plan_finalizers(kind: str, obj: Obj, *, now_ns: int) -> Plan:
    """A finalizer is a promise of whoever put it there; breaking it is a person's decision."""
    foreign = [each for each in metadata(obj).get("finalizers") or () if each not in KNOWN]
    if not foreign or not overdue(obj, now_ns=now_ns):
        return NOTHING
    since = metadata(obj)["deletionTimestamp"]
    why = f"it should be gone since {since}, but is held by {', '.join(foreign)}"
    return Plan(creates=(Create("RepairProposal", proposal(obj, kind, HELD, why)),), why=why)


# Proposals.


def proposal_name(kind: str, uid: str, action: str) -> str:
    """One per subject and action: a repeated pass meets its own."""
    return f"{kind.lower()}-{action.lower()}-{zlib.crc32(f'{kind}/{uid}/{action}'.encode()):08x}"


def proposal(obj: Obj, kind: str, problem: str, why: str) -> Obj:
    """`problem` is a word; what was seen is the evidence."""
    key, meta, action = key_of(obj), metadata(obj), ACTIONS[problem]
    return {
        "metadata": {
            "name": proposal_name(kind, uid_of(obj), action),
            "namespace": key.namespace or "fathom-system",
        },
        "spec": {
            "subject": {
                "apiVersion": obj.get("apiVersion", "v1"),
                "kind": kind,
                "namespace": key.namespace,
                "name": key.name,
                "uid": uid_of(obj),
            },
            "problem": problem,
            "action": action,
            "evidence": [
                {
                    "source": "repair",
                    "message": why,
                    "revision": int(meta.get("resourceVersion") or 0),
                }
            ],
        },
    }


def plan_proposal(proposed: Obj, subject: Obj | None, *, now: str) -> Plan:
    """What is to be done about a proposal, given its subject as the server shows it now."""
    spec, phase = proposed.get("spec") or {}, str(lookup(proposed, "status", "phase") or "")
    if phase in {"Done", "Obsolete", "Refused"}:
        return NOTHING
    if subject is None or uid_of(subject) != lookup(spec, "subject", "uid"):
        done = "Done" if phase == "Approved" else "Obsolete"
        return Plan(statuses=_phase(proposed, done, now), why="its subject is gone")
    if spec.get("approved") is None:
        return Plan(statuses=_phase(proposed, "Proposed", now), why="a person decides")
    if spec["approved"] is not True:
        return Plan(statuses=_phase(proposed, "Refused", now), why="refused")
    return Plan(statuses=_phase(proposed, "Approved", now), why="approved")


def _phase(proposed: Obj, phase: str, now: str) -> tuple[WriteStatus, ...]:
    status = {"phase": phase, "observedGeneration": metadata(proposed).get("generation")}
    return write_status("RepairProposal", proposed, status)


def subject_key(proposed: Obj) -> Key:
    subject = lookup(proposed, "spec", "subject") or {}
    return Key(str(subject.get("namespace") or ""), str(subject.get("name") or ""))


# What is said of a workload.


def plan_complete(progress: Obj, loose: Sequence[str], *, now: str) -> Plan:
    """`loose`: what was left behind of the workload, in words. Said for the generation that the progress is
    about: who rolls back waits for that one."""
    generation = int(lookup(progress, "status", "observedGeneration") or 0)
    if not generation:
        return NOTHING
    conditions = set_condition(
        conditions_of(progress),
        type=COMPLETE,
        status="False" if loose else "True",
        reason="Repairing" if loose else "NothingLeft",
        message="; ".join(sorted(loose)[:LOOSE_TOLD]),
        observed_generation=generation,
        now=now,
    )
    return Plan(statuses=write_status("WorkloadProgress", progress, {"conditions": conditions}), why=COMPLETE)


def loose_ends(
    reservations: Sequence[Obj], pods: Sequence[Obj], proposals: Sequence[Obj], *, now_ns: int
) -> list[str]:
    """Of one workload: reservations that hold capacity for nobody, and proposals that wait for a person."""
    alive = {uid_of(pod) for pod in pods}
    found = []
    for reservation in reservations:
        held, holder = read(Reservation, reservation), lookup(reservation, "metadata", "annotations", POD_UID)
        if held.status.phase in HOLDING and (_expired(held, now_ns) or (holder and holder not in alive)):
            found.append(f"reservation {key_of(reservation).name} holds capacity for nobody")
    for proposed in proposals:
        if str(lookup(proposed, "status", "phase") or "") in {"", "Proposed", "Approved"}:
            found.append(f"proposal {key_of(proposed).name} waits for a person")
    return found
