"""Why a Namespace that was deleted is still there: what is left in it, and which finalizers keep that."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import CONTROLLERS, part_trouble, restart
from fathom.explain.why_of.lookups import KIND_NAMES, ExplainPod
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, is_deleting, key_of, metadata

# What namespaces hold, by the kinds that people give finalizers to.
CONTENT = (*KIND_NAMES, "configmaps", "secrets", "serviceaccounts", "persistentvolumeclaims")
# The most telling first: content goes by itself, unless finalizers keep it.
REMAINING = ("NamespaceFinalizersRemaining", "NamespaceContentRemaining", "NamespaceDeletionContentFailure")


def explain_namespace(
    evidence: Evidence, namespace: Obj, explain_pod: ExplainPod | None = None
) -> Explanation:
    trouble = _deletion(evidence, namespace) if is_deleting(namespace) else None
    verdict = "is active" if trouble is None else trouble.verdict
    return answered(evidence, namespace, trouble, stage="namespaces", verdict=verdict)


def _deletion(evidence: Evidence, namespace: Obj) -> SubjectTrouble:
    verdict = f"is being deleted since {metadata(namespace)['deletionTimestamp']}"
    left = [
        str(condition.get("message") or condition.get("reason"))
        for type_ in REMAINING
        if (condition := find_condition(conditions_of(namespace), type_) or {}).get("status") == "True"
    ]
    held = next(_held(evidence, key_of(namespace).name), None)
    if held is not None:
        return SubjectTrouble(verdict, "; ".join(left) or "finalizers keep what is in it", _release(*held))
    trouble = part_trouble(evidence, CONTROLLERS)
    cause = trouble or "; ".join(left) or "its content is being deleted"
    return SubjectTrouble(verdict, cause, restart(trouble, CONTROLLERS), kind="passing")


def _held(evidence: Evidence, namespace: str) -> Iterator[tuple[str, Obj]]:
    """Objects that are being deleted and have finalizers, with their resource."""
    if evidence.readable is not None and namespace not in evidence.readable:
        return
    for resource in CONTENT:
        for obj in evidence.objects.list(resource, namespace):
            if is_deleting(obj) and metadata(obj).get("finalizers"):
                yield resource, obj


def _release(resource: str, obj: Obj) -> Change:
    (namespace, name), finalizers = key_of(obj), metadata(obj)["finalizers"]
    kind = resource.partition(".")[0]
    patch = """[{"op":"remove","path":"/metadata/finalizers"}]"""
    return Change(
        f"let the controller of {finalizers[0]} finish, or remove the finalizer of {kind}/{name}",
        f"kubectl patch {word(kind)} {word(name)} -n {word(namespace)} --type=json -p {word(patch)}",
        "the finalizer's owner",
    )
