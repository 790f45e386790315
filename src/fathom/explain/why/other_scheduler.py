"""A pod that somebody else's scheduler decides about, in a Kubernetes that fathom is attached to.

There is no record of that decision. The pure decider runs the same rules on the state as it is observed now;
what that cannot show is said beside it.
"""

from __future__ import annotations

import msgspec

from fathom.explain.why.answer import DetailGroup, Now
from fathom.explain.why.case import PodCase
from fathom.model.mirror import is_mirror
from fathom.model.objects import lookup, metadata
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.pods import PodView

DEFAULT, KUBE_SCHEDULER = "default-scheduler", "kube-scheduler"
SCHEDULED = "Scheduled"  # The reason of the Event that a scheduler writes when it has bound a pod.


def other_scheduler(case: PodCase) -> str:
    """'kube-scheduler', 'scheduler gpu'; '' where fathom decides, or nobody does."""
    decided = DECISION_ANNOTATION in (metadata(case.pod).get("annotations") or {})
    if not case.evidence.attached or case.decisions or decided or is_mirror(case.pod):
        return ""
    name = _event_author(case) or str(lookup(case.pod, "spec", "schedulerName") or DEFAULT)
    return KUBE_SCHEDULER if name == DEFAULT else f"scheduler {name}"


def context_of(case: PodCase, view: PodView, *, view_age_ms: int = 0) -> PlacementContext:
    """The context that the pod is decided under. Somebody else's scheduler knows no overrides."""
    context = case.cluster.context(view, now_ns=case.evidence.now_ns, view_age_ms=view_age_ms)
    if not other_scheduler(case):
        return context
    return msgspec.structs.replace(context, avoided=(), allowed=(), raised=())


def _event_author(case: PodCase) -> str:
    """Who wrote the newest Event that says that the pod was scheduled. Events are kept for an hour."""
    for event in reversed(case.events):
        if event.get("reason") == SCHEDULED:
            return str(event.get("reportingComponent") or lookup(event, "source", "component") or "")
    return ""


def placed_text(case: PodCase, who: str, now: Now | None) -> str:
    """'kube-scheduler decided; the same rules give node-1 now'"""
    decided = f"it runs on {case.node}; {who} decided"
    if now is None:
        return f"{decided}; the same rules cannot be run: its node is not among those observed"
    if not now.node:
        return f"{decided}; the same rules give no node now"
    if now.node == case.node:
        return f"{decided}; the same rules give {case.node} now"
    return f"{decided}; the same rules give another node now: {now.answer}"


def not_known(who: str) -> DetailGroup:
    """What running the rules again cannot show."""
    return DetailGroup(
        "not known",
        (
            f"the state that {who} saw: the rules were run on what is observed now",
            f"whether {who} has another profile, plugins or extenders: the default rules were run",
            "volumes that are not bound yet, and claims to devices, are not decided again",
        ),
    )


def waiting_details(case: PodCase, placement: Placement) -> tuple[DetailGroup, ...]:
    """What the scheduler says of a waiting pod, and what the same rules give."""
    who = other_scheduler(case)
    if not who:
        return ()
    message = str(case.condition("PodScheduled").get("message") or "")
    given = f"node {placement.node}" if placement.node else placement.message
    lines = (
        f"{who} says: {message}" if message else f"{who} has said nothing yet",
        f"the same rules give: {given}",
    )
    return (DetailGroup(who, lines), not_known(who))
