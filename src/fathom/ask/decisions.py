"""Recorded decisions as objects of the API: kind Decision, as much of it as the user may see."""

from __future__ import annotations

from collections import Counter

import msgspec

from fathom.ask.subjects import namespace_of_answer
from fathom.ask.wire import wire
from fathom.explain.evidence import Recorded
from fathom.explain.hidden_names import NOTHING, HiddenNames
from fathom.kinds.decision import DEFINITION
from fathom.kinds.shape import API_VERSION
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Obj
from fathom.model.record_query import victims_of
from fathom.model.times import micro_timestamp, timestamp


class VisibleParts(msgspec.Struct, frozen=True):
    """What the user may see of a decision besides its subject."""

    may_read_nodes: bool = True
    readable: frozenset[str] | None = None  # Namespaces whose objects may be named; None: all.
    hidden: HiddenNames = NOTHING

    def may_name(self, namespace: str) -> bool:
        return self.readable is None or namespace in self.readable


def decision_object(record: Recorded, visible: VisibleParts, api_version: str = API_VERSION) -> Obj:
    decision, outcomes = record.kept.decision, record.kept.outcomes
    return {
        "kind": DEFINITION.kind,
        "apiVersion": api_version,
        "metadata": {
            "name": decision.id,
            "namespace": namespace_of_answer(decision.subject.namespace),
            "creationTimestamp": timestamp(decision.time_ns),
        },
        "spec": visible.hidden.value(_spec(decision, visible)),
        "status": visible.hidden.value(
            {
                "process": record.process,
                "result": outcomes[-1].result if outcomes else "",
                "outcomes": [_outcome(outcome, visible) for outcome in outcomes],
                **_reasons(record, visible),
            }
        ),
    }


def _spec(decision: Decision, visible: VisibleParts) -> Obj:
    subject = decision.subject
    shown: Obj = wire(decision)
    for name in ("id", "timeNs", "verdicts", "differs"):  # Its name, its time, and how reasons are stored.
        shown.pop(name, None)
    shown |= {
        "object": f"{subject.resource}/{subject.name}",
        "time": micro_timestamp(decision.time_ns),
        "cause": {**shown.get("cause", {}), "text": decision.cause.text},
    }
    if decision.seen:  # A wait or an age of zero is an answer too.
        shown["queuedMs"] = decision.queued_ms
        shown["seen"] = {kind: {"ageMs": 0, **seen} for kind, seen in shown["seen"].items()}
    if "victims" in shown:
        shown["victims"] = _victims(shown["victims"], visible)
    if not visible.may_read_nodes:
        shown["cause"].pop("detail", None)
        shown.pop("node", None)
        shown.pop("agent", None)
        shown.pop("scores", None)
    return shown


def _victims(victims: list[str], visible: VisibleParts) -> list[str]:
    names = victims_of(victims)
    named = [
        victim
        for victim, name in zip(victims, names, strict=True)
        if visible.may_name(name.partition("/")[0])
    ]
    hidden = len(victims) - len(named)
    return [*named, *([f"{hidden} pods of other namespaces"] if hidden else [])]


def _outcome(outcome: Outcome, visible: VisibleParts) -> Obj:
    shown: Obj = wire(outcome)
    del shown["id"], shown["timeNs"]
    if outcome.object is not None and not visible.may_name(outcome.object.namespace):
        shown["object"] = {"resource": outcome.object.resource}
    return {"time": micro_timestamp(outcome.time_ns), **shown}


def _reasons(record: Recorded, visible: VisibleParts) -> Obj:
    """Each node's reason, or how many nodes were rejected for which."""
    if record.nodes is None:
        return {}
    if visible.may_read_nodes:
        return {"nodes": dict(sorted(record.nodes.items()))}
    counts = Counter(visible.hidden.text(reason) for reason in record.nodes.values() if reason)
    return {"reasons": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))}
