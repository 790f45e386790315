"""The answer to: who can change the inputs of this decision without calling it? For an actor of the control
plane, an object, or a field of an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fathom.explain.coupling.actors import actors, find_actor
from fathom.explain.coupling.kind_names import kind_of, resource_of
from fathom.explain.coupling.links import CouplingLink, links_of, same_kind
from fathom.explain.coupling.observed import ObservedWriter, contested_fields, observed_writers
from fathom.explain.evidence import Evidence, Gap, ObjectRef, Objects, RecordQuery
from fathom.explain.fights_about import fights_about
from fathom.model.declared import Actor, Reads, Source, shared_fields

EVERY_ACTOR = "*"  # As the name of a controller: the declarations of all of them.
NEWEST = 500  # Audit entries of one object: of an object that is written every second, some minutes.


class InputWriter(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    actor: str
    fields: tuple[str, ...] = ()
    creates: bool = False
    deletes: bool = False


class CouplingInput(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One kind that an actor decides from, and who can change it."""

    reader: str
    kind: str
    fields: tuple[str, ...]
    source: Source
    calls: bool  # Whether a change makes the reader decide again; else it sees the change at its next pass.
    writers: tuple[InputWriter, ...] = ()


class DeclaredRead(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    fields: tuple[str, ...]
    source: Source
    calls: bool


class DeclaredWrite(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    kind: str
    fields: tuple[str, ...] = ()
    creates: bool = False
    deletes: bool = False


class DeclaredActor(msgspec.Struct, frozen=True, rename="camel"):
    """What a part of the control plane reads and writes, for a graph of all of them."""

    name: str
    process: str
    reads: tuple[DeclaredRead, ...]
    writes: tuple[DeclaredWrite, ...]


class CacheBehind(msgspec.Struct, frozen=True, rename="camel"):
    """How far a process's cache is behind the newest object of a kind, as it says."""

    process: str
    kind: str
    revision: int
    latest: int
    age_ms: int


class Coupling(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subject: str
    summary: str
    silent: tuple[str, ...]  # Actors that can change an input without calling its reader.
    inputs: tuple[CouplingInput, ...]
    links: tuple[CouplingLink, ...]
    observed: tuple[ObservedWriter, ...] = ()  # Of an object or a field: who wrote it, from the audit log.
    contested: tuple[str, ...] = ()  # Fields whose observed writers took turns.
    fights: tuple[str, ...] = ()  # That go on about the object and what it depends on.
    caches: tuple[CacheBehind, ...] = ()
    gaps: tuple[Gap, ...] = ()
    actors: tuple[DeclaredActor, ...] = ()  # Only of the controller '*': all of them, with what they declare.


class UnknownActor(ValueError):
    """No actor has that name. The message lists the names."""


class CouplingQuestion(msgspec.Struct, frozen=True):
    """What `spec` must have; an API kind has more."""

    # The name of an actor, or '*' for all: the question is about it, and not about an object.
    controller: str = ""
    field: str = ""


def wanted(subject: ObjectRef, objects: Objects, spec: Any) -> RecordQuery:
    """The audit entries of the object. An actor's coupling follows from the declarations alone."""
    if getattr(spec, "controller", ""):
        return RecordQuery()
    return RecordQuery(objects=(subject,), newest=NEWEST)


def answer(evidence: Evidence, spec: Any, table: Mapping[str, Actor] | None = None) -> Coupling:
    """Raises UnknownActor."""
    table = actors() if table is None else table
    name, field = str(getattr(spec, "controller", "")), str(getattr(spec, "field", ""))
    if name == EVERY_ACTOR:
        return _of_every_actor(table)
    if name:
        return _of_actor(name, table, evidence)
    return _of_object(evidence, field, table)


def _of_actor(name: str, table: Mapping[str, Actor], evidence: Evidence) -> Coupling:
    actor = find_actor(name, table)
    if actor is None:
        raise UnknownActor(f"there is no controller {name!r}: there are {', '.join(table)}")
    inputs = tuple(_input(actor, read, table.values()) for read in actor.reads)
    return Coupling(
        subject=actor.name,
        summary=_summary(actor.name, inputs),
        silent=_silent(inputs),
        inputs=inputs,
        links=links_of(actor, table.values()),
        caches=_caches(evidence, {read.kind for read in actor.reads}, actor.process),
        gaps=evidence.gaps,
    )


def _of_every_actor(table: Mapping[str, Actor]) -> Coupling:
    declared = tuple(_declared(actor) for actor in table.values())
    kinds = {read.kind for actor in declared for read in actor.reads}
    kinds |= {write.kind for actor in declared for write in actor.writes}
    return Coupling(
        subject=EVERY_ACTOR,
        summary=f"{len(declared)} parts of the control plane read and write {len(kinds)} kinds",
        silent=(),
        inputs=(),
        links=(),
        actors=declared,
    )


def _declared(actor: Actor) -> DeclaredActor:
    reads = [
        DeclaredRead(read.kind, read.fields, read.source, _is_woken(actor, read.kind)) for read in actor.reads
    ]
    writes = [DeclaredWrite(each.kind, each.fields, each.creates, each.deletes) for each in actor.writes]
    return DeclaredActor(actor.name, actor.process, tuple(reads), tuple(writes))


def _is_woken(actor: Actor, kind: str) -> bool:
    return kind in actor.woken_by or "*" in actor.woken_by


def _of_object(evidence: Evidence, field: str, table: Mapping[str, Actor]) -> Coupling:
    subject = evidence.subject
    kind = kind_of(subject.resource) or subject.resource  # A kind of a CustomResourceDefinition.
    fields = (field or "*",)
    inputs = tuple(
        _narrowed(actor, read, kind, fields, table.values())
        for actor in table.values()
        for read in actor.reads
        if same_kind(read.kind, kind) and shared_fields(read.fields, fields)
    )
    title = " ".join(part for part in (kind, "/".join(filter(None, subject.key)), field) if part)
    observed = observed_writers(evidence.audit, subject, field)
    contested = contested_fields(evidence.audit, subject)
    links = _links_at(table, kind, fields)
    return Coupling(
        subject=title,
        summary=_object_summary(title, inputs, observed, contested),
        silent=_silent(inputs),
        inputs=inputs,
        links=links,
        observed=observed if evidence.may_read_nodes else tuple(map(_without_node, observed)),
        contested=tuple(at for at in contested if not field or shared_fields((at,), fields)),
        fights=fights_about(evidence),
        caches=_caches(evidence, {kind}),
        gaps=evidence.gaps,
    )


def _links_at(table: Mapping[str, Actor], kind: str, fields: tuple[str, ...]) -> tuple[CouplingLink, ...]:
    """The links between any two actors that meet in these fields of this kind, each pair once."""
    links: dict[tuple[str, ...], CouplingLink] = {}
    for actor in table.values():
        for link in links_of(actor, table.values()):
            if link.kind != kind or not shared_fields(link.fields, fields):
                continue
            pair = (link.form, *sorted((actor.name, link.actor))) if link.form == "two-writers" else ()
            key = pair or (link.form, actor.name, link.actor)
            links.setdefault(key, msgspec.structs.replace(link, actor=f"{link.actor} -> {actor.name}"))
    return tuple(links.values())


def _input(actor: Actor, read: Reads, table: Iterable[Actor]) -> CouplingInput:
    return _narrowed(actor, read, read.kind, read.fields, table)


def _narrowed(
    actor: Actor, read: Reads, kind: str, fields: tuple[str, ...], table: Iterable[Actor]
) -> CouplingInput:
    """One input of an actor, as far as it is of this kind and in these fields."""
    at = shared_fields(read.fields, fields)
    writers = []
    for other in table:
        for write in other.writes if other.name != actor.name else ():
            shared = shared_fields(at, write.fields)
            if same_kind(kind, write.kind) and (shared or write.creates or write.deletes):
                writers.append(InputWriter(other.name, shared, write.creates, write.deletes))
    return CouplingInput(actor.name, kind, at, read.source, _is_woken(actor, kind), tuple(writers))


def _silent(inputs: Iterable[CouplingInput]) -> tuple[str, ...]:
    """A read in the commit itself cannot be changed unseen: the commit would fail."""
    quiet = (each for each in inputs if not each.calls and each.source != "commit")
    return tuple(dict.fromkeys(writer.actor for each in quiet for writer in each.writers))


def _summary(name: str, inputs: tuple[CouplingInput, ...]) -> str:
    kinds = dict.fromkeys(each.kind for each in inputs)
    writers = dict.fromkeys(writer.actor for each in inputs for writer in each.writers)
    silent = _silent(inputs)
    through = dict.fromkeys(
        each.kind for each in inputs if not each.calls and each.source != "commit" and each.writers
    )
    if not silent:
        return (
            f"{name} decides from {len(kinds)} kinds, which {len(writers)} others write: "
            "each change makes it decide again"
        )
    return (
        f"{name} decides from {len(kinds)} kinds, which {len(writers)} others write: "
        f"{len(silent)} of them can change {', '.join(through)} without calling it"
    )


def _object_summary(
    title: str,
    inputs: tuple[CouplingInput, ...],
    observed: tuple[ObservedWriter, ...],
    contested: tuple[str, ...],
) -> str:
    seen = dict.fromkeys(each.writer for each in observed)
    written = f"written by {', '.join(seen)}" if seen else "the audit log has no write of it"
    turns = f"; {', '.join(contested)}: its writers take turns" if contested else ""
    readers = len({each.reader for each in inputs})
    return f"{title}: {written}{turns}; {readers} actors decide from it"


def _without_node(observed: ObservedWriter) -> ObservedWriter:
    """Names of nodes are not for everybody."""
    if not observed.writer.startswith(("agent/", "system:node:")):
        return observed
    return msgspec.structs.replace(observed, writer="agent")


def _caches(evidence: Evidence, kinds: set[str], process: str = "") -> tuple[CacheBehind, ...]:
    behind = []
    for state in evidence.processes:
        if process and process not in {state.process, *state.parts}:
            continue
        for kind, seen in state.caches.items():
            latest = evidence.objects.last_change(resource_of(kind))
            if kind in kinds and latest:
                newest = max(seen.revision, seen.applied)
                behind.append(CacheBehind(state.process, kind, newest, latest, seen.age_ms))
    return tuple(behind)
