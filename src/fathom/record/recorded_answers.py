"""Answers a query from one journal: the decisions, and for the newest of each object every node's reason."""

from __future__ import annotations

from fathom.model.decision import KeptDecision
from fathom.model.record_query import DecisionReader, Recorded, RecordQuery, is_about


def read_records(reader: DecisionReader, query: RecordQuery, process: str) -> list[Recorded]:
    """The decisions, the newest of each object with every node's reason."""
    listed = reader.query(query)
    explained: set[str] = set()
    for ref in query.objects:
        about = [kept.decision for kept in listed if kept.decision.verdicts and is_about(kept, ref)]
        explained.update(decision.id for decision in about[-query.reasons_of :] if query.reasons_of)
    explained.update(query.decisions if query.reasons_of else ())
    return [_recorded(reader, kept, process, kept.decision.id in explained) for kept in listed]


def _recorded(reader: DecisionReader, kept: KeptDecision, process: str, with_nodes: bool) -> Recorded:
    rejections = reader.node_rejections(kept.decision) if with_nodes else None
    if rejections is None:
        return Recorded(process, kept)
    return Recorded(process, kept, rejections.reasons, rejections.rules)
