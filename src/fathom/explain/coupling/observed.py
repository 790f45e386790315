"""Who wrote a field, when, and by which decision: from the audit log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from fathom.explain.evidence import ObjectRef, committed_writes
from fathom.model.audit import AuditEntry
from fathom.model.fields import EVERYTHING
from fathom.record.audit_reading import writers_of

# Two names and the item of a list: 'status.conditions[type=Ready]', 'spec.replicas'.
_field = re.compile(r"[^.\[]+(?:\.[^.\[]+)?(?:\[[^\]]*\])?").match
# Changes by another writer than the last one, within the entries asked about: as often as in `fights`.
ALTERNATIONS_MIN = 3
_SERVER_SET = ("metadata.generation", "metadata.resourceVersion", "metadata.deletion")


class ObservedWriter(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One writer of one field."""

    field: str
    writer: str
    writes: int
    first: str  # RFC 3339.
    last: str
    decision: str = ""  # Of the last write.
    revision: int = 0
    admission: tuple[str, ...] = ()  # Plugins that put the value there, in the writer's request.
    certain: bool = True  # False: only something above the field is known to have changed.


def writer_name(entry: AuditEntry) -> str:
    """The part of fathom that wrote, else the user and the program that the user ran."""
    return writer_label(entry.actor, entry.user, entry.user_agent)


def writer_label(actor: str, user: str, user_agent: str) -> str:
    if actor:
        return actor
    program = user_agent.partition("/")[0].partition(" ")[0]
    return f"{user} ({program})" if program else user


def observed_writers(
    entries: Iterable[AuditEntry], subject: ObjectRef, field: str = ""
) -> tuple[ObservedWriter, ...]:
    """By field, then by the last write, newest first."""
    entries = committed_writes(entries, subject)
    if field:
        writes = writers_of(
            entries,
            resource=subject.resource,
            namespace=subject.namespace,
            name=subject.name,
            field_path=field,
        )
        seen = [(field, write.entry, write.plugins, write.certain) for write in writes]
    else:
        seen = [(at, entry, _plugins(entry, at), True) for entry in entries for at in _fields(entry.changed)]
    grouped: dict[tuple[str, str], ObservedWriter] = {}
    for at, entry, plugins, certain in seen:
        key = (at, writer_name(entry))
        grouped[key] = _with(grouped.get(key), key, entry, plugins, certain)
    return tuple(sorted(grouped.values(), key=lambda each: (each.field, -each.revision)))


def contested_fields(entries: Sequence[AuditEntry], subject: ObjectRef) -> tuple[str, ...]:
    """Fields whose writers took turns: each replaced the other's value, again and again. Parts of the control
    plane may report into one status; a person who writes there in turn with one of them fights it."""
    last: dict[str, tuple[str, int]] = {}
    by_people: set[str] = set()
    for entry in committed_writes(entries, subject):
        for field in _fields(entry.changed):
            writer, turns = last.get(field, ("", 0))
            name = writer_name(entry)
            last[field] = (name, turns + 1 if writer and writer != name else turns)
            by_people |= set() if entry.actor else {field}
    return tuple(
        field
        for field, (_, turns) in last.items()
        if turns >= ALTERNATIONS_MIN and (field in by_people or not field.startswith("status"))
    )


def _with(
    before: ObservedWriter | None,
    key: tuple[str, str],
    entry: AuditEntry,
    plugins: tuple[str, ...],
    certain: bool,
) -> ObservedWriter:
    return ObservedWriter(
        field=key[0],
        writer=key[1],
        writes=1 + (before.writes if before is not None else 0),
        # Times are those of answers: the last write may have the earliest.
        first=entry.time if before is None else min(before.first, entry.time),
        last=entry.time,
        decision=entry.decision,
        revision=entry.revision,
        admission=tuple(dict.fromkeys((*(before.admission if before is not None else ()), *plugins))),
        certain=certain or (before is not None and before.certain),
    )


def _fields(changed: Iterable[str]) -> list[str]:
    cut = (_cut(path) for path in changed if not path.startswith(_SERVER_SET))
    return list(dict.fromkeys(cut))


def _cut(path: str) -> str:
    if path == EVERYTHING:
        return path
    match = _field(path)
    return path if match is None else match[0]


def _plugins(entry: AuditEntry, field: str) -> tuple[str, ...]:
    return tuple(
        verdict.plugin for verdict in entry.admission if any(_cut(path) == field for path in verdict.mutated)
    )
