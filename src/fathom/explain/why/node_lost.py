"""Bound to a node that is not heard of: what is known of its pods is what was last reported."""

from __future__ import annotations

from fathom.controllers.node_health.plan import HELD
from fathom.controllers.node_health.plan_evictions import DECLARED
from fathom.explain.why import commands
from fathom.explain.why.answer import NOBODY, Change, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PodCase
from fathom.explain.why.control_plane import replacement_trouble
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, key_of, lookup, metadata
from fathom.model.well_known import NOT_READY_TAINT, UNREACHABLE_TAINT
from fathom.schedule.decide.remedies import OPERATOR

STAGE, VERDICT, WAS_READY = "not-ready", "is not ready", "was ready when its node was last heard of"
# Conditions of a node, the worst first. A suspect node may only be late, unless the brake keeps it from being
# more than suspect.
STATES = ("fathom.dev/Lost", "fathom.dev/Unreachable")
SUSPECT = "fathom.dev/Suspect"


def explain(case: PodCase) -> Explanation | None:
    """None: its node is heard of."""
    node = case.node_object
    if node is None:
        return _no_node(case)
    unheard = unheard_of(node)
    if unheard is None:
        return None
    verdict = WAS_READY if case.condition("Ready").get("status") == "True" else VERDICT
    ours = replacement_trouble(case)
    if ours is not None:
        cause = f"{unheard}; {ours.cause}"
        change = ours.change or _repair(node)
        return answer(case, "control-plane", verdict, cause, change=change, related=ours.related)
    return answer(
        case, STAGE, verdict, unheard, change=_repair(node),
        next_trigger="the node answers, or the pod is evicted",
    )  # fmt: skip


def _no_node(case: PodCase) -> Explanation:
    namespace, name = case.key
    change = Change(
        f"delete the pod: node {case.node} no longer exists",
        commands.kubectl("delete", "pod", name, "--force", namespace=namespace),
        "the pod's owner",
    )
    return answer(case, STAGE, "does not run", f"its node {case.node} does not exist", change=change)


def _repair(node: Obj) -> Change:
    name = key_of(node).name
    if (metadata(node).get("annotations") or {}).get(DECLARED):
        return Change(f"wait until the pod is evicted from {name}", "", NOBODY)
    command = commands.kubectl("annotate", "node", name, f"{DECLARED}=true")
    return Change(f"repair node {name}, or declare it lost", command, OPERATOR)


def unheard_of(node: Obj) -> str | None:
    """Why the node's reports cannot be relied on; None: it reports."""
    name, conditions = key_of(node).name, conditions_of(node)
    held = (find_condition(conditions, HELD) or {}).get("status") == "True"
    for type_ in (*STATES, SUSPECT) if held else STATES:
        condition = find_condition(conditions, type_) or {}
        if condition.get("status") == "True":
            word = type_.partition("/")[2].lower()
            since = f" since {condition['lastTransitionTime']}" if condition.get("lastTransitionTime") else ""
            why = str(condition.get("message") or "")
            return f"its node {name} is {word}{since}{f': {why}' if why else ''}"
    ready = find_condition(conditions, "Ready") or {}
    taints = {taint.get("key") for taint in lookup(node, "spec", "taints") or ()}
    if ready.get("status") == "Unknown" or UNREACHABLE_TAINT in taints:
        return (
            f"its node {name} sends no heartbeats since {ready.get('lastTransitionTime', 'an unknown time')}"
        )
    if ready.get("status") == "False" and NOT_READY_TAINT in taints:
        return f"its node {name} is not ready: {ready.get('message') or ready.get('reason')}"
    return None
