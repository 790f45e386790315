"""Proposals: what repair would do about ambiguous leftovers, why, and the outcome. Pure.

A person decides. A proposal ends with its subject, and is removed an hour later; a refusal is kept as long as
its subject exists.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from fathom.cache.needs import NoOlderThan
from fathom.control.plan import (
    NOTHING,
    Create,
    Delete,
    Patch,
    Plan,
    Target,
    WriteStatus,
    target,
    write_status,
)
from fathom.controllers.housekeeping.plan_garbage import FOREGROUND, ORPHAN
from fathom.controllers.override_pauses import WorkloadPause, as_decisive
from fathom.controllers.repair.plan_overrides import OverrideApproval
from fathom.kinds.repair_proposal import OVER, spec_hash, subject_fault
from fathom.model.accounts import REPAIR
from fathom.model.conditions import conditions_of, find_condition, set_condition
from fathom.model.decision import Considered
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.well_known import JOB_TRACKING_FINALIZER

# Far beyond any grace period: an object that is still there is held by something.
STUCK_S = 600.0

# Finalizers that running controllers of ours remove: they need no proposal.
KNOWN = ("kubernetes", FOREGROUND, ORPHAN, JOB_TRACKING_FINALIZER)
FINALIZER = "finalizer"  # Source of the evidence that names a finalizer.
# The possible problems, and the action proposed for each.
STRANDED, HELD = "TerminatingOnSilentNode", "HeldByFinalizers"
ACTIONS = {STRANDED: "Delete", HELD: "RemoveFinalizer"}
APPROVED = "approved"  # Why a plan carries out a proposal.
# The condition of a finished proposal, and how long it stays.
IS_OVER = "Over"
OVER_KEPT_S = 3600.0


def overdue(obj: Obj, *, now_ns: int) -> bool:
    """Terminating for much longer than its grace period."""
    return is_deleting(obj) and overdue_in_s(obj, now_ns=now_ns) is None


def overdue_in_s(obj: Obj, *, now_ns: int) -> float | None:
    """When to look again; None for an object that is not terminating, or is overdue already. A clock that is
    behind is set right some day: nothing waits for longer than the time that makes an object overdue."""
    deadline_ns = moment_ns(metadata(obj).get("deletionTimestamp"))
    if deadline_ns is None or now_ns - deadline_ns > STUCK_S * SECOND_NS:
        return None
    return STUCK_S - max(0.0, (now_ns - deadline_ns) / SECOND_NS) + 1.0


# Finalizers.


def foreign_finalizers(obj: Obj) -> list[str]:
    return [str(finalizer) for finalizer in metadata(obj).get("finalizers") or () if finalizer not in KNOWN]


def plan_finalizers(kind: str, obj: Obj, *, now_ns: int) -> Plan:
    """A finalizer is a promise of its owner to clean up; breaking it is a person's decision."""
    foreign = foreign_finalizers(obj)
    if not foreign or not overdue(obj, now_ns=now_ns):
        return NOTHING
    since = metadata(obj)["deletionTimestamp"]
    why = f"it should have been gone by {since}, but is held by finalizer {', '.join(foreign)}"
    return Plan(creates=(Create("RepairProposal", proposal(obj, kind, HELD, why)),), why=why)


def without_named(subject: Obj, proposed: Obj) -> list[str] | None:
    """The subject's finalizers without those of the proposal; None if none of those is there any more. Others
    stay: no person was asked about them."""
    named = {
        evidence.get("message")
        for evidence in lookup(proposed, "spec", "evidence") or ()
        if evidence.get("source") == FINALIZER
    }
    current = [str(finalizer) for finalizer in metadata(subject).get("finalizers") or ()]
    remaining = [finalizer for finalizer in current if finalizer not in named]
    return None if remaining == current else remaining


# Proposals.


def proposal_name(kind: str, uid: str, action: str, held_by: Sequence[str] = ()) -> str:
    """One per subject and action: a repeated pass finds its own proposal."""
    identity = "/".join((kind, uid, action, *held_by))
    return f"{kind.lower()}-{action.lower()}-{zlib.crc32(identity.encode()):08x}"


def proposal(obj: Obj, kind: str, problem: str, why: str) -> Obj:
    """`problem` is one word; the evidence says what was seen."""
    key, meta, action = key_of(obj), metadata(obj), ACTIONS[problem]
    held_by = foreign_finalizers(obj) if problem == HELD else []
    revision = int(meta.get("resourceVersion") or 0)
    return {
        "metadata": {
            "name": proposal_name(kind, uid_of(obj), action, held_by),
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
                {"source": "repair", "message": why, "revision": revision},
                *({"source": FINALIZER, "message": finalizer, "revision": revision} for finalizer in held_by),
            ],
        },
    }


def plan_proposal(
    proposed: Obj,
    subject: Obj | None,
    node: Obj | None = None,
    *,
    now_ns: int,
    now: str,
    approval: OverrideApproval | None = None,
    pause: WorkloadPause | None = None,
    over_s: float = 0.0,
) -> Plan:
    """What to do about a proposal, given its subject, and the node of a pod, as the server shows them now. A
    refusal is kept as long as its subject exists: without it the same would be proposed again. `approval`:
    of an override; a person's own decision counts before it. `pause`: of repair. `over_s`: for how long a
    finished proposal has been over."""
    spec, status = proposed.get("spec") or {}, proposed.get("status") or {}
    if status.get("phase") in OVER:
        return _forgotten(proposed, over_s)
    if (why := why_not_carried_out(proposed)) is not None:
        return _over(proposed, "Obsolete", why, now)
    if subject is None or uid_of(subject) != lookup(spec, "subject", "uid"):
        done = "Done" if status.get("phase") == "Approved" else "Obsolete"
        return _over(proposed, done, "its subject is gone", now)
    decision = status.get("approved") if status.get("approvedSpec") == spec_hash(proposed) else None
    if decision is None and approval is None:
        return Plan(
            statuses=_phase(proposed, "Proposed", _commands(proposed), now), why="it waits for approval"
        )
    if decision is False:
        return Plan(
            statuses=_phase(proposed, "Refused", "it was refused: nothing is done", now), why="refused"
        )
    if spec.get("action") == "RemoveFinalizer" and without_named(subject, proposed) is None:
        return _over(proposed, "Done", "the finalizers are gone", now)
    if (why := outdated(proposed, subject, node, now_ns=now_ns)) is not None:
        return _over(proposed, "Obsolete", why, now)
    by = None if decision else approval
    if pause is not None:
        why = f"it is approved{_by(by)}, and repair is paused by the override {pause.override}"
        cited = as_decisive(pause.considered, pause.override)
        return Plan(statuses=_phase(proposed, "Approved", why, now, by), why=why, considered=cited)
    return Plan(
        statuses=_phase(proposed, "Approved", f"it is being carried out{_by(by)}", now, by),
        why=APPROVED,
        considered=() if by is None else by.considered,
    )


def _by(approval: OverrideApproval | None) -> str:
    return "" if approval is None else f", approved by the override {approval.override} of {approval.author}"


def plan_repair(at: Target, subject: Obj, proposed: Obj, approval: OverrideApproval | None = None) -> Plan:
    """Carry out an approved proposal, on the subject as the server showed it."""
    considered: tuple[Considered, ...] = () if approval is None else approval.considered
    evidence: Obj = next(iter(lookup(proposed, "spec", "evidence") or ()), {})
    seen = evidence.get("message") or "no evidence"
    by = "" if approval is None else f" by the override {approval.override} of {approval.author}"
    why = f"RepairProposal {key_of(proposed).name} was approved{by}: {seen}"
    needs = (NoOlderThan(FRESH_S, ("RepairProposal",)),)
    if lookup(proposed, "spec", "action") == "RemoveFinalizer":
        change = {"metadata": {"finalizers": without_named(subject, proposed) or None}}
        patch = Patch(at, change, destructive=True)
        return Plan(patches=(patch,), needs=needs, why=why, considered=considered, heeds_pauses=True)
    deletes = (Delete(at, grace_s=0),)
    return Plan(deletes=deletes, needs=needs, why=why, considered=considered, heeds_pauses=True)


def _over(proposed: Obj, phase: str, why: str, now: str) -> Plan:
    return Plan(statuses=_phase(proposed, phase, why, now), why=why)


def why_not_carried_out(proposed: Obj) -> str | None:
    """Why nothing is done about a proposal even if it is approved; None: repair made it itself, about a
    permitted subject. The server accepts no other; one may have been stored before it checked."""
    if lookup(proposed, "status", "maker") != REPAIR:
        return "repair did not create it"
    if subject_fault(proposed) is not None:
        return "its subject is in another namespace"
    spec, kind = proposed.get("spec") or {}, lookup(proposed, "spec", "subject", "kind")
    wrong = spec.get("problem") == STRANDED and kind != "Pod"
    if wrong or ACTIONS.get(str(spec.get("problem"))) != spec.get("action"):
        return f"{spec.get('action')} is not repair's action for {spec.get('problem')}"
    return None


def outdated(proposed: Obj, subject: Obj, node: Obj | None, *, now_ns: int) -> str | None:
    """Why the problem no longer exists; None: it does. `node` is the pod's node, None if that is gone."""
    if not overdue(subject, now_ns=now_ns):
        return "its subject is no longer overdue"
    if lookup(proposed, "spec", "problem") == STRANDED and node is not None and not is_unheard(node):
        return f"node {key_of(node).name} is reachable again: it ends the pod itself"
    return None


def is_unheard(node: Obj) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "Unknown"
        for condition in lookup(node, "status", "conditions") or ()
    )


def _commands(proposed: Obj) -> str:
    """The commands for a person."""
    key = key_of(proposed)
    arguments = f"{key.name} -n {key.namespace}"
    return f"to approve: fathom repair approve {arguments}; to refuse: fathom repair refuse {arguments}"


def _phase(
    proposed: Obj, phase: str, why: str, now: str, by: OverrideApproval | None = None
) -> tuple[WriteStatus, ...]:
    """`by`: the override that approves it. The server sets its author as the approver."""
    generation = metadata(proposed).get("generation")
    conditions = set_condition(
        conditions_of(proposed),
        type=IS_OVER,
        status="True" if phase in OVER else "False",
        reason=phase,
        message=why,
        observed_generation=generation,
        now=now,
    )
    status = {"phase": phase, "observedGeneration": generation, "conditions": conditions}
    if phase not in OVER:  # Then it stays on record.
        status["approvedByOverride"] = None if by is None else by.override
    return write_status("RepairProposal", proposed, status)


def over_since(proposed: Obj) -> str | None:
    """The timestamp from which on a finished proposal is kept; None: it is not over."""
    if lookup(proposed, "status", "phase") not in OVER:
        return None
    condition = find_condition(conditions_of(proposed), IS_OVER) or {}
    return str(condition.get("lastTransitionTime") or metadata(proposed).get("creationTimestamp"))


def _forgotten(proposed: Obj, over_s: float) -> Plan:
    """Its outcome stays visible for a while."""
    if is_deleting(proposed) or over_s < OVER_KEPT_S:
        return NOTHING
    return Plan(
        deletes=(Delete(target("RepairProposal", proposed)),),
        needs=(NoOlderThan(FRESH_S, ("RepairProposal",)),),
        why="it ended an hour ago",
    )


def subject_key(proposed: Obj) -> Key:
    subject = lookup(proposed, "spec", "subject") or {}
    return Key(str(subject.get("namespace") or ""), str(subject.get("name") or ""))
