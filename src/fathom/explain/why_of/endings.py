"""Objects that are gone or are being deleted: by whom, since when, and what keeps them."""

from __future__ import annotations

from fathom.controllers.progress.missing_pods import OURS
from fathom.explain.evidence import Evidence, committed_writes
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import explained
from fathom.explain.why_of.control_plane import part_trouble
from fathom.explain.why_of.lookups import title
from fathom.model.audit import AuditEntry
from fathom.model.objects import Obj, key_of, metadata


def explain_gone(evidence: Evidence) -> Explanation:
    """What is on record of an object that does not exist."""
    subject = evidence.subject
    name = title(subject.resource, subject.key)
    entry = _deletion(evidence)
    verdict = "does not exist" if entry is None else f"was deleted by {entry.user} at {entry.time}"
    records = [
        recorded
        for recorded in evidence.decisions
        if (about := recorded.kept.decision.subject).resource == subject.resource
        and (about.namespace, about.name) == subject.key
    ]
    cause = "" if entry is None or not entry.decision else f"decision {entry.decision}"
    return explained(
        evidence,
        name=name,
        stage="gone",
        verdict=verdict,
        cause=cause,
        decisions=records[-1:],
    )


def _deletion(evidence: Evidence) -> AuditEntry | None:
    writes = committed_writes(evidence.audit, evidence.subject)
    entries = [entry for entry in writes if entry.verb in {"delete", "deletecollection"}]
    return entries[-1] if entries else None


def explain_deletion(evidence: Evidence, obj: Obj) -> Explanation:
    """An object with a deletionTimestamp: what keeps it."""
    meta, (namespace, name) = metadata(obj), key_of(obj)
    entry = _deletion(evidence)
    by = f" by {entry.user}" if entry is not None else ""
    finalizers = [str(each) for each in meta.get("finalizers") or ()]
    foreign = [each for each in finalizers if each not in OURS]
    cause = f"finalizer {', '.join(foreign)} keeps it" if foreign else _why_kept(evidence, finalizers)
    change = None
    if foreign:
        kind = evidence.subject.resource.partition(".")[0]
        within = f" -n {word(namespace)}" if namespace else ""
        change = Change(
            f"let the controller of {foreign[0]} finish, and remove the finalizer",
            f"kubectl edit {word(kind)}/{word(name)}{within}",
            "the finalizer's owner",
        )
    return explained(
        evidence,
        name=title(evidence.subject.resource, key_of(obj)),
        stage="gone",
        verdict=f"is being deleted{by} since {meta.get('deletionTimestamp')}",
        cause=cause,
        change=change,
        kind="passing",
    )


def _why_kept(evidence: Evidence, finalizers: list[str]) -> str:
    if finalizers:
        return "the garbage collector deletes what it owns first"
    return part_trouble(evidence, "controllers") or "it ends gracefully"
