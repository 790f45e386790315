"""Whether a cordoned node is being drained: which pods were evicted, and what keeps the others."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.controllers.pod_states import has_ended
from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import CauseGroup
from fathom.explain.why_of.lookups import (
    NODES,
    PODS,
    age_s,
    controller_uid,
    last_writer,
    path_of,
    shown_names,
)
from fathom.model.audit import AuditEntry
from fathom.model.conditions import DISRUPTION_TARGET, conditions_of, find_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, metadata
from fathom.model.resource_names import BUDGETS
from fathom.model.selectors import LabelSelector
from fathom.model.times import human_duration, moment_ns

EVICTED = "EvictionByEvictionAPI"
# Whoever drains asks again for a pod that was refused: `kubectl drain` after 5 s, an override after 30 s.
ASKS_AGAIN_S = 90.0


class Drain(msgspec.Struct, frozen=True):
    message: str
    causes: tuple[CauseGroup, ...] = ()


def drain_of(evidence: Evidence, node: Obj) -> Drain | None:
    """None if nothing shows that the node is being drained."""
    name = key_of(node).name
    pods = [
        pod
        for pod in evidence.objects.list(PODS)
        if lookup(pod, "spec", "nodeName") == name and not has_ended(pod)
    ]
    evicted = [pod for pod in pods if _is_evicted(pod)]
    refused = _last_refused(evidence, node, pods)
    if not evicted and refused is None:
        return None
    staying = [pod for pod in pods if not is_deleting(pod)]
    blocked = [(pod, budget) for pod in staying if (budget := _budget(evidence, pod)) is not None]
    budgets = ", ".join(sorted({path_of(budget) for _, budget in blocked}))
    held = f", and {len(blocked)} of them are kept by PodDisruptionBudget {budgets}" if blocked else ""
    age = 0.0 if refused is None else age_s(evidence, refused.time) or 0.0
    if refused is not None and not evicted and age > ASKS_AGAIN_S:
        asked = f"{refused.user} asked last, {human_duration(age)} ago, and was refused"
        return Drain(
            f"nobody drains it now: {asked}; {len(staying)} pods stay{held}", _groups(evidence, [], blocked)
        )
    by = f" by {refused.user}" if refused is not None and age <= ASKS_AGAIN_S else ""
    message = f"it is being drained{by}: {len(evicted)} pods are being evicted, {len(staying)} stay{held}"
    return Drain(message, _groups(evidence, evicted, blocked))


def _last_refused(evidence: Evidence, node: Obj, pods: list[Obj]) -> AuditEntry | None:
    """The last request to evict one of the pods that was refused since the node was cordoned."""
    cordon = last_writer(evidence, node, NODES, "spec.unschedulable")
    since_ns = 0 if cordon is None else moment_ns(cordon.time) or 0
    created = {key_of(pod): str(metadata(pod).get("creationTimestamp") or "") for pod in pods}
    refused = [
        entry
        for entry in evidence.audit
        if (entry.resource, entry.subresource, entry.code) == (PODS, "eviction", 429)
        and _is_about(entry, created)
        and (moment_ns(entry.time) or 0) >= since_ns
    ]
    return refused[-1] if refused else None


def _groups(evidence: Evidence, evicted: list[Obj], blocked: list[tuple[Obj, Obj]]) -> tuple[CauseGroup, ...]:
    budgets: dict[str, list[Obj]] = {}
    for pod, budget in blocked:
        budgets.setdefault(path_of(budget), []).append(pod)
    return (
        *((CauseGroup("evicted", len(evicted), shown_names(evidence, evicted)),) if evicted else ()),
        *(
            CauseGroup(f"budget/{budget}", len(pods), shown_names(evidence, pods), "it allows no disruption")
            for budget, pods in sorted(budgets.items())
        ),
    )


def _is_about(entry: AuditEntry, created: Mapping[Key, str]) -> bool:
    """Whether it is about one of these pods, and not about an earlier one of the same name: the entry of a
    refused request may have no UID."""
    since = created.get(Key(entry.namespace, entry.name))
    return since is not None and (moment_ns(entry.time) or 0) >= (moment_ns(since) or 0)


def _is_evicted(pod: Obj) -> bool:
    condition = find_condition(conditions_of(pod), DISRUPTION_TARGET) or {}
    return condition.get("status") == "True" and condition.get("reason") == EVICTED


def _budget(evidence: Evidence, pod: Obj) -> Obj | None:
    """The budget that allows no eviction of this pod now."""
    if not controller_uid(pod) and not labels_of(pod):
        return None
    for budget in evidence.objects.list(BUDGETS, key_of(pod).namespace):
        none_allowed = int(lookup(budget, "status", "disruptionsAllowed") or 0) <= 0
        if none_allowed and _selects(budget, pod):
            return budget
    return None


def _selects(budget: Obj, pod: Obj) -> bool:
    selector = lookup(budget, "spec", "selector")
    if selector is None:
        return False
    try:
        return LabelSelector.from_object(selector).matches(labels_of(pod))
    except ValueError:
        return False
