"""Why a PodDisruptionBudget allows no eviction: its pods are not healthy, or it asks for all of them."""

from __future__ import annotations

from fathom.controllers.pod_states import has_ended
from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import CONTROLLERS, part_trouble, restart, unobserved
from fathom.explain.why_of.lookups import (
    PODS,
    ExplainPod,
)
from fathom.explain.why_of.pod_causes import causes_of, decisive, explained_pod, grouped
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, key_of, labels_of, lookup
from fathom.model.selectors import LabelSelector


def explain_budget(evidence: Evidence, budget: Obj, explain_pod: ExplainPod | None = None) -> Explanation:
    trouble = _trouble(evidence, budget, explain_pod)
    allowed = int(lookup(budget, "status", "disruptionsAllowed") or 0)
    return answered(
        evidence,
        budget,
        trouble,
        stage="budgets",
        verdict=f"allows {allowed} evictions" if trouble is None else trouble.verdict,
        controller="disruption",
    )


def _trouble(evidence: Evidence, budget: Obj, explain_pod: ExplainPod | None) -> SubjectTrouble | None:
    behind = unobserved(evidence, budget, "disruption")
    if behind:
        change = restart(part_trouble(evidence, CONTROLLERS), CONTROLLERS)
        return SubjectTrouble("is not observed", behind, change)
    condition = find_condition(conditions_of(budget), "DisruptionAllowed") or {}
    if condition.get("reason") == "SyncFailed":
        return SubjectTrouble("cannot be computed", str(condition.get("message") or ""))
    healthy, desired, expected = (
        int(lookup(budget, "status", name) or 0)
        for name in ("currentHealthy", "desiredHealthy", "expectedPods")
    )
    if not expected or healthy > desired:
        return None
    if healthy == desired and desired >= expected:
        return _asks_for_all(budget, healthy)
    return _unhealthy(evidence, budget, explain_pod, healthy=healthy, desired=desired)


def _asks_for_all(budget: Obj, healthy: int) -> SubjectTrouble:
    namespace, name = key_of(budget)
    patch = '{"spec":{"minAvailable":' + str(max(0, healthy - 1)) + ',"maxUnavailable":null}}'
    command = f"kubectl patch pdb {word(name)} -n {word(namespace)} --type=merge -p {word(patch)}"
    change = Change("ask for one pod less", command, f"the owner of pdb/{name}")
    cause = f"it asks for all of its {healthy} pods"
    return SubjectTrouble("never allows an eviction", cause, change, kind="intended")


def _unhealthy(
    evidence: Evidence, budget: Obj, explain_pod: ExplainPod | None, *, healthy: int, desired: int
) -> SubjectTrouble:
    causes = causes_of(evidence, _pods(evidence, budget))
    first = decisive(causes)
    cause = f"{healthy} pods are healthy, and {desired} must be"
    if first is None:
        return SubjectTrouble("allows no eviction", cause)
    pod, why = first
    explained = explained_pod(evidence, pod, why, explain_pod)
    return SubjectTrouble(
        "allows no eviction",
        f"{cause}: {explained.cause}",
        explained.change,
        grouped(evidence, causes),
    )


def _pods(evidence: Evidence, budget: Obj) -> list[Obj]:
    try:
        selector = LabelSelector.from_object(lookup(budget, "spec", "selector"))
    except ValueError:
        return []
    pods = evidence.objects.list(PODS, key_of(budget).namespace)
    return [pod for pod in pods if selector.matches(labels_of(pod)) and not has_ended(pod)]
