"""The eight forms of hidden coupling, between one actor and all others. One function a form.

A link is no fault: shared state is how a control plane works together. It says where to look when a decision
cannot be explained from its own actor alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from fathom.model.declared import Actor, Reads, Timer, Writes, shared_fields

Form = Literal[
    "two-writers",
    "shared-capacity",
    "shared-queue",
    "cache-lag",
    "admission-mutates",
    "status-as-input",
    "retries-load-api",
    "timers-align",
]

ANY_KIND = "*"
STATUS = ("status",)
# Beyond it, one timer is in step with the other so seldom that nobody would notice.
PERIODS_RATIO_MAX = 4
FIELDS_SHOWN = 3  # In a text; `fields` has them all.
# Answered, and never stored: what acts on objects of any kind does not act on these.
NOT_STORED = frozenset({"NodeConnection", "PodMetrics"})


class CouplingLink(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How another actor can change what an actor decides, without a call between them."""

    form: Form
    actor: str  # The other one.
    text: str
    kind: str = ""
    fields: tuple[str, ...] = ()
    through: str = ""  # What they share: a quota, a queue, a server, a period.
    calls: bool = False  # Whether its change makes the actor decide again at once.


def links_of(actor: Actor, table: Iterable[Actor]) -> tuple[CouplingLink, ...]:
    """In the order of the forms, then of the table."""
    others = [other for other in table if other.name != actor.name]
    return tuple(link for find in FORMS.values() for other in others for link in find(actor, other))


def two_writers(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    if actor.mutates_requests or other.mutates_requests:
        return  # It changes the object in the writer's own request: `admission_mutates`.
    for kind, fields in _shared(actor.writes, other.writes):
        text = f"{other.name} also writes {_named(kind, fields)}: the later write wins"
        yield CouplingLink("two-writers", other.name, text, kind, fields, calls=kind in actor.woken_by)


def shared_capacity(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    for pool in actor.takes:
        if pool in other.takes:
            text = f"{other.name} uses up the same {pool}"
            yield CouplingLink("shared-capacity", other.name, text, through=pool)


def shared_queue(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    for queue in actor.waits_in:
        if queue in other.waits_in:
            text = f"{other.name} waits in the same place: {queue}"
            yield CouplingLink("shared-queue", other.name, text, through=queue)
    if actor.account and actor.account == other.account:
        through = f"request rate of {actor.account}"
        text = f"{other.name} sends requests as the same user: one request rate, one breaker"
        yield CouplingLink("shared-queue", other.name, text, through=through)


def cache_lag(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    """A process sees its own writes at once, and an API server those of everybody."""
    if actor.process in {other.process, "api-server"}:
        return
    for kind, fields in _shared(_from(actor.reads, "cache"), other.writes):
        text = f"{other.name} writes {_named(kind, fields)}, which {actor.name} reads from a cache"
        yield CouplingLink("cache-lag", other.name, text, kind, fields, calls=kind in actor.woken_by)


def admission_mutates(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    if not other.mutates_requests:
        return
    for kind, fields in _shared(actor.reads, other.writes):
        text = f"{other.name} changes {_named(kind, fields)} in the requests of others"
        yield CouplingLink("admission-mutates", other.name, text, kind, fields, calls=kind in actor.woken_by)


def status_as_input(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    inputs = [Reads(read.kind, shared_fields(read.fields, STATUS), read.source) for read in actor.reads]
    for kind, fields in _shared(inputs, other.writes):
        text = f"{other.name} reports {_named(kind, fields)}, and {actor.name} decides from it"
        yield CouplingLink("status-as-input", other.name, text, kind, fields, calls=kind in actor.woken_by)


def retries_load_api(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    for server in actor.calls:
        if server in other.calls:
            text = f"{other.name} tries failed requests again at {server}, which {actor.name} needs too"
            yield CouplingLink("retries-load-api", other.name, text, through=server)


def timers_align(actor: Actor, other: Actor) -> Iterator[CouplingLink]:
    for timer in actor.timers:
        for beside in other.timers:
            if _align(timer, beside):
                through = (
                    f"{timer.name} every {timer.period_s:g} s, {beside.name} every {beside.period_s:g} s"
                )
                text = f"{other.name} works in step with {actor.name}: {through}"
                yield CouplingLink("timers-align", other.name, text, through=through)


FORMS: dict[Form, Callable[[Actor, Actor], Iterator[CouplingLink]]] = {
    "two-writers": two_writers,
    "shared-capacity": shared_capacity,
    "shared-queue": shared_queue,
    "cache-lag": cache_lag,
    "admission-mutates": admission_mutates,
    "status-as-input": status_as_input,
    "retries-load-api": retries_load_api,
    "timers-align": timers_align,
}

TITLES: dict[Form, str] = {
    "two-writers": "fields that others write too",
    "shared-capacity": "quotas and capacities that others use up too",
    "shared-queue": "queues and rate limits that others wait in too",
    "cache-lag": "inputs from a cache, written by other processes",
    "admission-mutates": "inputs that admission changes in others' requests",
    "status-as-input": "inputs that others report in a status",
    "retries-load-api": "servers that others' retries load",
    "timers-align": "timers that stay in step",
}


def _align(timer: Timer, other: Timer) -> bool:
    """Timers without a random part keep the distance that they once had."""
    if timer.spread or other.spread:
        return False
    long_s, short_s = max(timer.period_s, other.period_s), min(timer.period_s, other.period_s)
    return long_s % short_s == 0 and long_s / short_s <= PERIODS_RATIO_MAX


def _shared(
    first: Iterable[Reads | Writes], second: Iterable[Writes]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The kinds and fields that are in both, each kind once."""
    second = tuple(second)
    shared: dict[str, dict[str, None]] = {}
    for access in first:
        for write in second:
            kind = same_kind(access.kind, write.kind)
            for field in shared_fields(access.fields, write.fields) if kind else ():
                shared.setdefault(kind, {})[field] = None
    return ((kind, tuple(fields)) for kind, fields in shared.items())


def same_kind(first: str, second: str) -> str:
    """The kind, if both are it or stand for any; else ''."""
    if ANY_KIND in {first, second} and not NOT_STORED & {first, second}:
        return second if first == ANY_KIND else first
    return first if first == second else ""


def _from(reads: Iterable[Reads], source: str) -> list[Reads]:
    return [read for read in reads if read.source == source]


def _named(kind: str, fields: tuple[str, ...]) -> str:
    more = f" and {len(fields) - FIELDS_SHOWN} more fields" if len(fields) > FIELDS_SHOWN else ""
    return f"{kind} {', '.join(fields[:FIELDS_SHOWN])}{more}"
