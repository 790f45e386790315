"""The cluster as it was at a revision or a time, while the store remembers it.

The audit log ties revisions to times: an entry has both. What the store has compacted is on the tapes of the
deciding processes: `fathom replay` reads those.
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.api.core import Core
from fathom.explain.evidence import HeldObjects
from fathom.model.audit import AuditEntry
from fathom.model.errors import bad_request, expired
from fathom.model.times import moment_ns
from fathom.record.audit_index import AuditIndex
from fathom.store.protocol import Compacted, FutureRevision


class PastMoment(msgspec.Struct, frozen=True):
    revision: int
    time_ns: int


async def moment_of(core: Core, at: str, audit: AuditIndex | None) -> PastMoment:
    """`at`: a revision, or an RFC 3339 time. Raises 400 for anything else, and for the future."""
    time_ns = moment_ns(at)
    if not at.isdecimal() and time_ns is None:
        raise bad_request(f"spec.at must be a revision or an RFC 3339 time, not {at!r}")
    if audit is None:
        raise bad_request("spec.at: this server keeps no audit log, which ties revisions to times")
    revision = int(at) if at.isdecimal() else None
    if revision is not None and revision > core.cache.reached:
        raise bad_request(
            f"spec.at: revision {revision} does not exist yet; the newest is {core.cache.reached}"
        )
    entry = await asyncio.to_thread(_last_write, audit, revision, time_ns)
    if entry is None:
        raise expired(f"the audit log does not go back to {at}")
    return PastMoment(revision or entry.revision, time_ns or moment_ns(entry.time) or 0)


def _last_write(audit: AuditIndex, revision: int | None, time_ns: int | None) -> AuditEntry | None:
    """The last write up to the revision or the time."""

    def is_after(entry: AuditEntry) -> bool:
        if revision is not None:
            return entry.revision > revision
        return (moment_ns(entry.time) or 0) > (time_ns or 0)

    return audit.last_write(is_after)


async def objects_at(core: Core, revision: int) -> HeldObjects:
    """All objects as they were. Raises 410 where the store has compacted the revision."""
    listed = {}
    for kind in core.registry.kinds():
        if kind.virtual or kind.stored_as or not kind.plural:
            continue
        try:
            page = await core.store.range(kind.prefix, revision=revision)
        except Compacted:
            raise expired(
                f"the store no longer remembers revision {revision}: the tapes may, see fathom record"
            ) from None
        except FutureRevision as error:
            raise bad_request(f"spec.at: the newest revision is {error.current}") from None
        if page.entries:
            listed[kind.resource] = [entry.body.obj_at(entry.revision) for entry in page.entries]
    return HeldObjects(listed, revision=revision)
