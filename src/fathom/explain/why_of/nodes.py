"""Why a node takes no pods: lost, unreachable, not ready, under pressure, quarantined, cordoned, tainted.

Several of these can be true at once. The worst comes first, and each says since when, by whom and on which
evidence, as far as the audit log and the conditions have it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fathom.controllers.node_health.evidence import NodeState
from fathom.controllers.node_health.plan import HELD, OURS, PRESSURES, STATES
from fathom.controllers.node_health.plan_evictions import DECLARED
from fathom.controllers.node_health.plan_trust import QUARANTINED
from fathom.explain.cordons import cordoned_by, is_cordoned
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import CauseGroup, Change, Explanation, TroubleKind
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import explained
from fathom.explain.why_of.control_plane import OPERATOR
from fathom.explain.why_of.drains import drain_of
from fathom.explain.why_of.lookups import (
    NODES,
    OVERRIDES,
    ExplainPod,
    last_decision,
    last_writer,
    ref,
    title,
    written_by,
)
from fathom.kinds.attached_override import as_acknowledged
from fathom.kinds.scheduler_override import SchedulerOverride, cordons, expiry_ns, override_active
from fathom.kinds.shape import read
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, key_of, labels_of, lookup, metadata
from fathom.model.times import timestamp
from fathom.model.well_known import QUARANTINE_TAINT, UNSCHEDULABLE_TAINT

HEARTBEAT = "repair the machine or its network, and start its agent"


TAINTED = "tainted"  # By people, for some pods: no trouble of the node.
CORDONED = "cordoned"


class NodeTrouble(msgspec.Struct, frozen=True):
    verdict: str  # After "is": 'cordoned'.
    cause: str
    change: Change | None = None
    related: tuple[ObjectRef, ...] = ()
    kind: TroubleKind = "trouble"


def explain_node(evidence: Evidence, node: Obj, explain_pod: ExplainPod | None = None) -> Explanation:
    troubles = list(_troubles(evidence, node))
    closed = any(trouble.verdict != TAINTED for trouble in troubles)
    drain = drain_of(evidence, node) if any(trouble.verdict == CORDONED for trouble in troubles) else None
    decision = last_decision(evidence, node, "nodes")
    return explained(
        evidence,
        name=title(NODES, key_of(node)),
        stage="nodes",
        verdict=_verdict(troubles),
        as_wanted=not closed,
        cause="; also ".join(trouble.cause for trouble in troubles),
        change=next((trouble.change for trouble in troubles if trouble.change), None) if closed else None,
        causes=(
            *(CauseGroup(trouble.verdict, 1, (), trouble.cause) for trouble in troubles),
            *(() if drain is None else drain.causes),
        ),
        related=[related for trouble in troubles for related in trouble.related],
        decisions=() if decision is None else (decision,),
        kind=troubles[0].kind if troubles else "trouble",  # The worst.
    )


def _verdict(troubles: list[NodeTrouble]) -> str:
    if not troubles:
        return "is ready and takes pods"
    if all(trouble.verdict == TAINTED for trouble in troubles):
        return "is ready and takes pods that tolerate its taints"
    return "is " + " and ".join(dict.fromkeys(trouble.verdict for trouble in troubles))


def _troubles(evidence: Evidence, node: Obj) -> Iterator[NodeTrouble]:
    """The worst first."""
    yield from _by_evidence(evidence, node)
    yield from _by_agent(node)
    yield from _quarantined(node)
    yield from _cordoned(evidence, node)
    yield from _overridden(evidence, node)
    yield from _tainted(evidence, node)


# What heartbeats and other sources say.


def _by_evidence(evidence: Evidence, node: Obj) -> Iterator[NodeTrouble]:
    for state, type_ in reversed(STATES):
        condition = find_condition(conditions_of(node), type_) or {}
        if condition.get("status") != "True":
            continue
        since, message = condition.get("lastTransitionTime"), str(condition.get("message") or "")
        held = find_condition(conditions_of(node), HELD) or {}
        brake = f"; held back by the brake: {held['message']}" if held.get("status") == "True" else ""
        yield NodeTrouble(
            state.word.lower(), f"{message} (since {since}){brake}", _heartbeat_change(node, state)
        )
        return


def _heartbeat_change(node: Obj, state: NodeState) -> Change:
    name = key_of(node).name
    if DECLARED in (metadata(node).get("annotations") or {}):
        command = f"kubectl annotate node {word(name)} {DECLARED}-"
        return Change("withdraw the declaration that the machine is gone, if it is back", command, OPERATOR)
    if state == NodeState.LOST:
        command = f"kubectl delete node {word(name)}"
        return Change(f"{HEARTBEAT}; if the machine is gone, delete the node", command, OPERATOR)
    return Change(HEARTBEAT, f"fathom serve agent --node {word(name)}", OPERATOR)


# What its agent says.


def _by_agent(node: Obj) -> Iterator[NodeTrouble]:
    conditions = conditions_of(node)
    ready = find_condition(conditions, "Ready")
    unheard = any(
        (find_condition(conditions, type_) or {}).get("status") == "True" for _, type_ in STATES[1:]
    )
    if not unheard and (ready is None or ready.get("status") != "True"):
        reported = ready or {}
        message = str(reported.get("message") or reported.get("reason") or "its agent has not reported yet")
        since = f" (since {reported['lastTransitionTime']})" if reported.get("lastTransitionTime") else ""
        command = f"kubectl describe node {word(key_of(node).name)}"
        yield NodeTrouble("not ready", f"{message}{since}", Change("repair the node", command, OPERATOR))
    for type_ in PRESSURES:
        pressure = find_condition(conditions, type_) or {}
        if pressure.get("status") == "True":
            message = str(pressure.get("message") or pressure.get("reason") or "")
            resource = type_.removesuffix("Pressure").lower()
            change = Change(
                f"free {resource} on the node", f"kubectl describe node {word(key_of(node).name)}", OPERATOR
            )
            yield NodeTrouble("under pressure", f"{type_}: {message}", change)


def _quarantined(node: Obj) -> Iterator[NodeTrouble]:
    condition = find_condition(conditions_of(node), QUARANTINED) or {}
    if condition.get("status") != "True":
        return
    command = f"kubectl annotate node {word(key_of(node).name)} fathom.dev/trust-lost-"
    change = Change("repair the node, and forgive it", command, OPERATOR)
    since = condition.get("lastTransitionTime")
    yield NodeTrouble("quarantined", f"{condition.get('message')} (since {since})", change)


# What people have set.


def _cordoned(evidence: Evidence, node: Obj) -> Iterator[NodeTrouble]:
    if not is_cordoned(node):
        return
    taint = _taint(node, UNSCHEDULABLE_TAINT)
    since = f"since {taint['timeAdded']}" if taint.get("timeAdded") else "since an unknown time"
    by = cordoned_by(evidence, node) or f"cordoned {since}; who did it: no data"
    drain = drain_of(evidence, node)
    drained = f"; {drain.message}" if drain is not None else ""
    change = Change("uncordon the node", f"kubectl uncordon {word(key_of(node).name)}", OPERATOR)
    yield NodeTrouble(CORDONED, f"{by}{drained}", change, kind="intended")


def _overridden(evidence: Evidence, node: Obj) -> Iterator[NodeTrouble]:
    """Overrides keep pods away without any mark on the node."""
    for obj in evidence.objects.list(OVERRIDES):
        honoured = as_acknowledged(obj) if evidence.attached else obj
        override = None if honoured is None else _read(honoured)
        if override is None or not override_active(override, evidence.now_ns):
            continue
        if not cordons(override, key_of(node).name, labels_of(node)):
            continue
        namespace, name = key_of(obj)
        until = timestamp(expiry_ns(override) or 0)
        by = f" by {override.status.author}" if override.status.author else ""
        pods = "pods that name fathom's scheduler" if evidence.attached else "pods"
        cause = f"the override {namespace}/{name}{by} keeps {pods} away until {until}: {override.spec.reason}"
        command = f"kubectl delete scheduleroverride {word(name)} -n {word(namespace)}"
        change = Change(f"end the override, or wait until {until}", command, OPERATOR)
        yield NodeTrouble("cordoned by an override", cause, change, (ref(OVERRIDES, obj),), "intended")


def _read(obj: Obj) -> SchedulerOverride | None:
    try:
        return read(SchedulerOverride, obj)
    except msgspec.ValidationError:
        return None


def _tainted(evidence: Evidence, node: Obj) -> Iterator[NodeTrouble]:
    """Taints of other clients: fathom's own follow from what was said above. A node with such a taint still
    takes pods that tolerate it."""
    name = key_of(node).name
    for taint in lookup(node, "spec", "taints") or ():
        key, effect = str(taint.get("key")), str(taint.get("effect"))
        if key in OURS or key == QUARANTINE_TAINT or effect == "PreferNoSchedule":
            continue
        writer = written_by(last_writer(evidence, node, NODES, f"spec.taints[key={key}]"))
        writer = writer or written_by(last_writer(evidence, node, NODES, "spec.taints"))
        value = f"={taint['value']}" if taint.get("value") else ""
        by = f", set {writer}" if writer else ""
        command = f"kubectl taint node {word(name)} {word(key)}:{word(effect)}-"
        change = Change("remove the taint, or tolerate it", command, OPERATOR)
        yield NodeTrouble(TAINTED, f"taint {key}{value}:{effect}{by}", change)


def _taint(node: Obj, key: str) -> Obj:
    taints = lookup(node, "spec", "taints") or ()
    return next((taint for taint in taints if taint.get("key") == key), {})
