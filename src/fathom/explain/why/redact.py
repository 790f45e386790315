"""Leaves out what the user may not see: rows of nodes, and names that `hidden_names` says."""

from __future__ import annotations

import msgspec

from fathom.explain.evidence import Evidence
from fathom.explain.hidden_names import HiddenNames
from fathom.explain.why.answer import Explanation, NodeGroup


def redacted(explanation: Explanation, evidence: Evidence, hidden: HiddenNames) -> Explanation:
    if not hidden and evidence.may_read_nodes:
        return explanation
    if not evidence.may_read_nodes:
        groups = tuple(NodeGroup(group.reason, group.count) for group in explanation.groups)
        explanation = msgspec.structs.replace(explanation, groups=groups, nodes=())
    shown = {
        field: hidden.value(getattr(explanation, field))
        for field in explanation.__struct_fields__
        if field != "subject"
    }
    return msgspec.structs.replace(explanation, **shown)
