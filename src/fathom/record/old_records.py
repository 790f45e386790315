"""Records of older versions, which had in a text what is a field of its own now.

Only their reader looks into these texts: whoever reads a record finds the fields filled. A replay of an old
tape can so be compared with its journal.
"""

from __future__ import annotations

import msgspec

from fathom.model.cause import ADDED, CHANGED, DELETED, RUNTIME, WakeCause
from fathom.model.decision import Decision, Outcome, RecordedVerdicts

_EVENTS = frozenset({ADDED, CHANGED, DELETED, RUNTIME})
_VERBS = frozenset({"create", "patch", "delete", "evict", "status"})


def upgraded_decision(decision: Decision) -> Decision:
    cause = decision.cause
    if cause.kind != "event" or cause.event or not cause.detail:
        return decision
    upgraded = _upgraded_cause(cause)
    return decision if upgraded is cause else msgspec.structs.replace(decision, cause=upgraded)


def _upgraded_cause(cause: WakeCause) -> WakeCause:
    """'PodGone deleted from node-1': the scheduler's names of events have capitals."""
    event, _, rest = cause.detail.partition(" ")
    if cause.detail not in _EVENTS and not event[:1].isupper():
        return cause
    gone = DELETED in {event, rest.partition(" ")[0]}
    return msgspec.structs.replace(cause, event=event, detail=rest, gone=gone)


def upgraded_outcome(outcome: Outcome) -> Outcome:
    """'create Pod shop/web-1: …', of a write that a plan had."""
    verb = outcome.message.partition(" ")[0]
    if outcome.verb or verb not in _VERBS:
        return outcome
    return msgspec.structs.replace(outcome, verb=verb)


def upgraded_verdicts(verdicts: RecordedVerdicts) -> RecordedVerdicts:
    """'NodeResourcesFit: Insufficient cpu'"""
    if verdicts.rules:
        return verdicts
    rules = tuple(reason.partition(": ")[0] for reason in verdicts.reasons)
    return msgspec.structs.replace(verdicts, rules=rules)
