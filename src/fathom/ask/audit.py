"""The audit log's entries about a few objects, read in a thread."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.explain.evidence import Gap, ObjectRef
from fathom.model.audit import AuditEntry
from fathom.record.audit_index import AuditIndex

# Of all the objects of a question together, the newest: some 4 MB. Some objects are written every second.
ENTRIES_MAX = 5_000


class AuditAnswer(msgspec.Struct, frozen=True):
    entries: tuple[AuditEntry, ...] = ()
    gap: Gap | None = None


def read_audit(index: AuditIndex | None, refs: Iterable[ObjectRef]) -> AuditAnswer:
    """Writes of the objects, oldest first."""
    if index is None:
        return AuditAnswer(gap=Gap("audit log", "this server keeps none"))
    try:
        entries = index.newest(refs, ENTRIES_MAX)
    except OSError as error:
        return AuditAnswer(gap=Gap("audit log", str(error)))
    cut = Gap("audit log", f"only the newest {ENTRIES_MAX} writes were read")
    return AuditAnswer(tuple(entries), cut if len(entries) == ENTRIES_MAX else None)
