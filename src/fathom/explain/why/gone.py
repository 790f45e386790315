"""Terminating and gone: who deleted the pod, from the audit log and the records."""

from __future__ import annotations

from fathom.explain.evidence import Evidence, ObjectRef, Recorded, committed_writes
from fathom.explain.why import commands, node_lost
from fathom.explain.why.answer import Change, Explanation, summary_of
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PODS, PodCase, events_about
from fathom.explain.why.displaced import victim_records
from fathom.explain.why.records import cited
from fathom.model.audit import AuditEntry
from fathom.model.objects import Key, lookup, metadata, uid_of
from fathom.model.times import timestamp
from fathom.schedule.decide.remedies import OPERATOR

STAGE = "gone"
NO_RECORD = "there is no pod of this name, and no record of one"


def terminating(case: PodCase) -> Explanation | None:
    deleted_at = metadata(case.pod).get("deletionTimestamp")
    if not deleted_at:
        return None
    deletion = deletion_of(case.evidence, case.key, uid_of(case.pod))
    by = _deletion_text(deletion, case.evidence) if deletion is not None else _unknown(case.evidence)
    finalizers: list[str] = list(metadata(case.pod).get("finalizers") or ())
    has_ended = not case.node or lookup(case.pod, "status", "phase") in {"Succeeded", "Failed"}
    if finalizers and has_ended:
        return _held(case, by, finalizers)
    unheard = None if case.node_object is None else node_lost.unheard_of(case.node_object)
    if unheard is not None and not has_ended:
        return _unconfirmed(case, f"{by}; {unheard}, so nobody confirms that its containers have stopped")
    held = f"; finalizer {', '.join(finalizers)} holds it" if finalizers else ""
    return answer(
        case, STAGE, "is being deleted", f"{by}{held}; its grace period ends at {deleted_at}",
        next_trigger="its containers have stopped", kind="passing",
    )  # fmt: skip


def _held(case: PodCase, by: str, finalizers: list[str]) -> Explanation:
    """Nothing of it runs any more: whoever set the finalizer has to remove it."""
    listed = ", ".join(finalizers)
    operation: commands.Operation = {"op": "remove", "path": "/metadata/finalizers"}
    namespace, name = case.key
    change = Change(
        "let its controller finish, or remove the finalizer",
        commands.json_patch("pod", name, [operation], namespace=namespace),
        f"whoever set {listed}",
    )
    cause = f"{by}; its containers have stopped, and finalizer {listed} holds it"
    return answer(case, STAGE, "is being deleted", cause, change=change, next_trigger=f"{listed} is removed")


def _unconfirmed(case: PodCase, cause: str) -> Explanation:
    namespace, name = case.key
    change = Change(
        f"repair node {case.node}, or delete the pod by force once the node is surely off",
        commands.kubectl("delete", "pod", name, "--force", namespace=namespace),
        OPERATOR,
    )
    return answer(case, STAGE, "is being deleted", cause, change=change, next_trigger="the node answers")


def explain(subject: ObjectRef, evidence: Evidence) -> Explanation:
    """A pod that does not exist: what is recorded about the last pod of this name."""
    deletion = deletion_of(evidence, subject.key, subject.uid)
    uid = subject.uid or (deletion.uid if deletion is not None else "")
    records = _records(evidence, subject.key, uid)
    cause = _cause(subject, evidence, deletion, records)
    verdict = "no longer exists" if deletion is not None or records else "does not exist"
    return Explanation(
        subject=ObjectRef(
            PODS, *subject.key, uid or (records[-1].kept.decision.subject.uid if records else "")
        ),
        summary=summary_of("pod " + "/".join(subject.key), verdict, cause, None),
        verdict=verdict,
        as_wanted=False,
        cause=cause,
        stage=STAGE,
        gaps=evidence.gaps,
        decisions=cited(records),
    )


def existed(subject: ObjectRef, evidence: Evidence) -> bool:
    """Whether anything is recorded about a pod of this name."""
    deleted = deletion_of(evidence, subject.key, subject.uid) is not None
    return deleted or bool(_records(evidence, subject.key, subject.uid))


def deletion_of(evidence: Evidence, key: Key, uid: str) -> AuditEntry | None:
    """Who asked for it. The agent deletes a pod once more when its containers have stopped: that only
    confirms the first request. Of several pods of this name, the newest."""
    writes = committed_writes(evidence.audit, ObjectRef(PODS, *key, uid))
    deletions = [entry for entry in writes if entry.verb in {"delete", "deletecollection"}]
    return next((entry for entry in deletions if entry.uid == deletions[-1].uid), None)


def _records(evidence: Evidence, key: Key, uid: str) -> list[Recorded]:
    about = [
        recorded
        for recorded in evidence.decisions
        if recorded.kept.decision.subject.resource == PODS
        and (recorded.kept.decision.subject.namespace, recorded.kept.decision.subject.name) == key
        and uid in {"", recorded.kept.decision.subject.uid}
    ]
    newest = about[-1].kept.decision.subject.uid if about else ""
    return [recorded for recorded in about if recorded.kept.decision.subject.uid == newest]


def _cause(
    subject: ObjectRef, evidence: Evidence, deletion: AuditEntry | None, records: list[Recorded]
) -> str:
    # Victims are recorded by name: an eviction from before this pod was placed was of another pod.
    placed_ns = records[-1].kept.decision.time_ns if records else 0
    victims = [
        recorded
        for recorded in victim_records(evidence, subject.key)
        if recorded.kept.decision.time_ns >= placed_ns
    ]
    if victims:
        decision = victims[-1].kept.decision
        winner = f"{decision.subject.namespace}/{decision.subject.name}"
        when = timestamp(decision.time_ns)
        took = f"pod {winner} of priority {decision.priority} took its place on {decision.node}"
        return f"it was preempted at {when}: {took}"
    if deletion is not None:
        return _deletion_text(deletion, evidence)
    if events := events_about(evidence.objects, subject.key, subject.uid):
        last = events[-1]
        return f"the last Event about it is {last.get('reason')}: {last.get('message')}"
    if not records:
        return NO_RECORD
    decision = records[-1].kept.decision
    verdict = f"{decision.verdict} {decision.node}".rstrip()
    return (
        f"the last decision about it, at {timestamp(decision.time_ns)}, was {verdict!r}; {_unknown(evidence)}"
    )


def _deletion_text(entry: AuditEntry, evidence: Evidence) -> str:
    """'deleted by alice at …, by decision d-7: …'"""
    decisions = [recorded.kept.decision for recorded in evidence.decisions]
    decision = next((each for each in decisions if entry.decision and each.id == entry.decision), None)
    acting = f" for {entry.impersonator}" if entry.impersonator else ""
    text = f"deleted by {entry.user}{acting} at {entry.time}"
    if decision is not None:
        message = decision.message or decision.cause.text
        return f"{text}: {decision.controller} decided {decision.verdict} ({message})".removesuffix(" ()")
    return f"{text}, by decision {entry.decision}" if entry.decision else text


def _unknown(evidence: Evidence) -> str:
    has_gap = any("audit" in gap.source for gap in evidence.gaps)
    return "no data about who deleted it" + (": the audit log did not answer" if has_gap else "")
