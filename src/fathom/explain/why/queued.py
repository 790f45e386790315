"""Queued: the pod fits a node as the cluster is now, and has none yet. It waits for its turn, or for us."""

from __future__ import annotations

from fathom.explain.why.answer import Explanation, Now
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PodCase, override_refs
from fathom.explain.why.control_plane import OwnTrouble, silent_scheduler, stale_view
from fathom.explain.why.records import groups_of, queue_entry, queue_place
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key, lookup
from fathom.schedule.decide.delayed_claims import is_bound, selected_node
from fathom.schedule.decide.place import Placement

CLAIMS, STORAGE_CLASSES = "persistentvolumeclaims", "storageclasses.storage.k8s.io"
REFUSED = frozenset({"conflict", "rejected"})
WAITS = "waits for a node"
# The kinds that a rule reads besides the pod: only they can have made its answer stale.
READS: dict[str, tuple[str, ...]] = {
    "NodeResourcesFit": ("Node", "Pod", "CapacityClass", "Reservation"),
    "NodePorts": ("Pod",),
    "PodTopologySpread": ("Node", "Pod"),
    "InterPodAffinity": ("Node", "Pod", "Namespace"),
    "MaxZoneSkew": ("Node", "Pod", "SchedulingPolicy", "PolicyRollout"),
    "TenantQuota": ("TenantQuota", "Pod", "Reservation", "Namespace"),
    "Override": ("SchedulerOverride", "Node"),
    "CapacityClass": ("CapacityClass", "SchedulerOverride", "Node"),
    "VolumeBinding": ("PersistentVolume", "PersistentVolumeClaim", "Node"),
}
NODE_RULES = ("Node",)


def explain(case: PodCase, placement: Placement) -> Explanation:
    last = case.last.kept.decision if case.last is not None else None
    recorded = case.last.nodes if case.last is not None else None
    node = placement.node or ""
    now = Now(last is not None and last.verdict != "bind", f"it fits {node}", node)
    trouble = _trouble(case, last)
    place = queue_place(case)
    if trouble is not None:
        return answer(
            case, "control-plane", WAITS, trouble.cause, change=trouble.change, now=now, queue=place,
            next_trigger=trouble.next_trigger, groups=groups_of(recorded or {}, recorded=True),
        )  # fmt: skip
    ahead = f", place {place.place} of {place.of} in the queue" if place and place.source == "queue" else ""
    ahead += _raised(case) + _behind(case)
    return answer(
        case, "queued", WAITS, f"it fits {node}{_before(case, last)} and waits for its turn{ahead}",
        now=now, queue=place, next_trigger=_next(case), kind="passing",
        groups=groups_of(recorded or {}, recorded=True),
        related=override_refs(case.evidence, filter(None, [queue_entry(case).get("raisedBy")])),
    )  # fmt: skip


def _raised(case: PodCase) -> str:
    """The override that has brought it forward."""
    entry = queue_entry(case)
    by = entry.get("raisedBy")
    return f", raised to priority {entry.get('priority')} by the override {by}" if by else ""


def _behind(case: PodCase) -> str:
    """How many of the pods next before it are there because of their priority."""
    entry = queue_entry(case)
    others, own = entry.get("ahead") or (), int(entry.get("priority") or case.view.priority)
    higher = sum(int(other.get("priority") or 0) > own for other in others)
    return f", behind {higher} pod{'s' if higher > 1 else ''} of higher priority" if higher else ""


def _next(case: PodCase) -> str:
    retried_s = queue_entry(case).get("retriedInS")
    return f"retried in {retried_s} s" if retried_s is not None else "its turn in the queue"


def _trouble(case: PodCase, last: Decision | None) -> OwnTrouble | None:
    if last is not None and last.verdict != "bind":
        rules = [rejection.rule for rejection in last.rejected]
        reads = {kind for rule in rules for kind in READS.get(rule, NODE_RULES)}
        if (stale := stale_view(case, reads)) is not None:
            return stale
    return _unbound_volume(case) or _unanswered_binding(case) or silent_scheduler(case)


def _unbound_volume(case: PodCase) -> OwnTrouble | None:
    """It has been placed, and a claim of it waits for its volume there: others bind and provision."""
    objects, namespace = case.evidence.objects, case.key.namespace
    for name in case.view.shape.claims:
        claim = objects.get(CLAIMS, Key(namespace, name))
        if claim is None or is_bound(claim) or not (node := selected_node(claim)):
            continue
        class_name = str(lookup(claim, "spec", "storageClassName") or "")
        storage_class = objects.get(STORAGE_CLASSES, Key("", class_name)) or {}
        provisioner = storage_class.get("provisioner") or f"the provisioner of class {class_name}"
        missing = f"{provisioner} has not made the volume of its claim {name} there yet"
        return OwnTrouble(
            f"it is to run on {node}, and {missing}",
            next_trigger=f"PersistentVolumeClaim {name} is bound",
        )
    return None


def _unanswered_binding(case: PodCase) -> OwnTrouble | None:
    """Its binding was sent, and the API server has not said what became of it: the scheduler sends the same
    binding again until it does."""
    outcomes = case.last.kept.outcomes if case.last is not None else ()
    if case.last is None or not outcomes or outcomes[-1].result != "unknown":
        return None
    node, message = case.last.kept.decision.node, outcomes[-1].message
    return OwnTrouble(
        f"its binding to {node} got no answer from the API server ({message}) and is sent again",
        next_trigger="the API server answers the binding",
    )


def _before(case: PodCase, last: Decision | None) -> str:
    """What became of the last attempt."""
    if case.last is None or last is None:
        return ""
    if last.verdict == "unschedulable":
        return " now, though none when it was last tried,"
    refused = last_refusal(case.last.kept.outcomes)
    return (
        f" now, though its last binding was refused ({refused.message})," if refused is not None else " now"
    )


def last_refusal(outcomes: tuple[Outcome, ...]) -> Outcome | None:
    return next((outcome for outcome in reversed(outcomes) if outcome.result in REFUSED), None)
