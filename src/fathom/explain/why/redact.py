"""Leaves out what the user may not see: names of nodes, and objects of namespaces that they may not read.

Texts quote the scheduler, agents and other users' objects, so they are searched too.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import Change, Explanation, NodeGroup
from fathom.model.objects import key_of

A_NODE, ANOTHER = "a node", "an object of another namespace"
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]|[A-Za-z0-9]")
PATH = re.compile(r"([a-z0-9][a-z0-9.-]*)/([a-z0-9][a-z0-9.-]*)")


def redacted(explanation: Explanation, evidence: Evidence) -> Explanation:
    if evidence.may_read_nodes and evidence.readable is None:
        return explanation
    hidden = _Hidden(evidence)
    if not evidence.may_read_nodes:
        groups = tuple(NodeGroup(group.reason, group.count) for group in explanation.groups)
        explanation = msgspec.structs.replace(explanation, groups=groups, nodes=())
    shown = {
        field: hidden.value(getattr(explanation, field))
        for field in explanation.__struct_fields__
        if field != "subject"
    }
    return msgspec.structs.replace(explanation, **shown)


class _Hidden:
    def __init__(self, evidence: Evidence) -> None:
        objects, readable = evidence.objects, evidence.readable
        self._nodes = (
            frozenset()
            if evidence.may_read_nodes
            else frozenset(key_of(node).name for node in objects.list("nodes"))
        )
        namespaces = frozenset(key_of(namespace).name for namespace in objects.list("namespaces"))
        own = {evidence.subject.namespace}
        self._namespaces = frozenset() if readable is None else namespaces - readable - own

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, tuple):
            return tuple(self.value(item) for item in value)
        if isinstance(value, msgspec.Struct):
            fields = {field: self.value(getattr(value, field)) for field in value.__struct_fields__}
            if isinstance(value, Change) and fields["what"] != value.what:
                fields["command"] = ""  # It names the same objects, word by word.
            return type(value)(**fields)
        return value

    def _text(self, text: str) -> str:
        if self._namespaces:
            text = PATH.sub(lambda match: ANOTHER if match[1] in self._namespaces else match[0], text)
        if self._nodes:
            text = WORD.sub(lambda match: A_NODE if match[0] in self._nodes else match[0], text)
        return text
