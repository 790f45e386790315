"""Leaves out what the user may not see: rows of nodes, and names that `hidden_names` says."""

from __future__ import annotations

import msgspec

from fathom.explain.evidence import Evidence
from fathom.explain.hidden_names import HiddenNames
from fathom.explain.why.answer import Change, Explanation


def redacted(explanation: Explanation, evidence: Evidence, hidden: HiddenNames) -> Explanation:
    if not hidden and evidence.may_read_nodes:
        return explanation
    if not evidence.may_read_nodes:
        groups = tuple(msgspec.structs.replace(group, nodes=()) for group in explanation.groups)
        explanation = msgspec.structs.replace(explanation, groups=groups, nodes=())
    shown = {
        field: hidden.value(getattr(explanation, field))
        for field in explanation.__struct_fields__
        if field not in {"subject", "change", "changes"}
    }
    return msgspec.structs.replace(
        explanation,
        **shown,
        change=None if explanation.change is None else _shown_change(explanation.change, hidden),
        changes=tuple(_shown_change(change, hidden) for change in explanation.changes),
    )


def _shown_change(change: Change, hidden: HiddenNames) -> Change:
    """A command that names what the user must not learn cannot be typed without the name: it is left out. It
    names the objects of the text word by word, so a name that is hidden in the text is in it too."""
    shown: Change = hidden.value(change)
    same = (shown.what, shown.command) == (change.what, change.command)
    return shown if same else msgspec.structs.replace(shown, command="")
