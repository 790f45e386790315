"""Who cordoned a node, and when, as far as the audit log has it."""

from __future__ import annotations

from fathom.explain.evidence import Evidence, ObjectRef, Objects
from fathom.explain.why_of.lookups import NODES, age_s, last_writer, ref
from fathom.model.audit import AuditEntry
from fathom.model.objects import Obj, lookup
from fathom.model.times import human_duration

CORDONED_MAX = 20  # Nodes whose writes one question reads: their agents write them often.


def is_cordoned(node: Obj) -> bool:
    return bool(lookup(node, "spec", "unschedulable"))


def cordoned_nodes(objects: Objects) -> tuple[ObjectRef, ...]:
    """The nodes whose writes say who cordoned them."""
    cordoned = [ref(NODES, node) for node in objects.list(NODES) if is_cordoned(node)]
    return tuple(sorted(cordoned, key=lambda node: node.name)[:CORDONED_MAX])


def cordoned_by(evidence: Evidence, node: Obj) -> str:
    """'cordoned by alice, 10m ago (2026-01-01T00:00:00Z)'; '' where the audit log does not say."""
    entry = last_writer(evidence, node, NODES, "spec.unschedulable") if is_cordoned(node) else None
    return "" if entry is None else _text(evidence, entry)


def _text(evidence: Evidence, entry: AuditEntry) -> str:
    behind = f", impersonated by {entry.impersonator}" if entry.impersonator else ""
    decision = f", decision {entry.decision}" if entry.decision else ""
    age = age_s(evidence, entry.time)
    ago = "" if age is None else f", {human_duration(max(0.0, age))} ago"
    return f"cordoned by {entry.user}{behind}{ago} ({entry.time}{decision})"
