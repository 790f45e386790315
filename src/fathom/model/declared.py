"""What each part of the control plane declares: the fields it reads, the fields it writes, what it shares.

A declaration stands beside the code that it describes: `reads` and `writes` of a controller beside its
`watches`, an `Actor` in the package of anything else that decides or writes. `explain/coupling` collects
them. Controllers see only the kinds that they declare, in the simulator only the fields, and it checks every
commit against the declared writes, so a declaration cannot be wrong for long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from fathom.model.fields import EVERYTHING, steps_of

# cache: from a watch, some time behind the server. api: asked for when needed. commit: checked in the commit
# itself, so a change in between makes the write fail.
Source = Literal["cache", "api", "commit"]

ALL = (EVERYTHING,)

# Quotas and capacities that several actors use up.
NODE_ROOM = "room on nodes"
TENANT_QUOTAS = "TenantQuotas and CapacityClasses"
RESOURCE_QUOTAS = "ResourceQuotas"
DISRUPTIONS = "disruptions that PodDisruptionBudgets allow"
NODE_BRAKE = "reactions to silent nodes that the brake allows"
QUARANTINED_NODES = "nodes that may be quarantined at a time"
# Queues and rate limits that work waits in.
SCHEDULING_QUEUE = "queue of pods to schedule"
COMMIT_LANES = "commits that charge one quota wait for each other"
MUTATING_ROOM = "writes in progress in one API server (limits.MUTATING_MAX)"
GARBAGE_QUEUE = "queue of objects to collect"
# Servers that requests are sent to.
API_SERVER, AGENTS, GATEWAY_PROXY = "the API server", "the node agents", "the gateway's proxy"


class Reads(msgspec.Struct, frozen=True):
    """The fields of one kind that decisions follow from, as prefixes of paths."""

    kind: str
    fields: tuple[str, ...] = ALL
    source: Source = "cache"


class Writes(msgspec.Struct, frozen=True):
    """The fields of one kind that are changed in existing objects, as prefixes of paths."""

    kind: str
    fields: tuple[str, ...] = ()
    creates: bool = False
    deletes: bool = False


class Timer(msgspec.Struct, frozen=True):
    """Work that starts again after a fixed time. `spread`: which part of the time is drawn at random; with 0,
    timers that once start together stay together."""

    name: str
    period_s: float
    spread: float = 0.0


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the control plane that decides or writes."""

    name: str  # As in audit entries: 'scheduler', 'controllers/deployments'; 'admission/LimitRanger'.
    process: str  # The process that it runs in: its parts share one connection, account and breaker.
    account: str = ""  # The user that its requests are sent as.
    reads: tuple[Reads, ...] = ()
    writes: tuple[Writes, ...] = ()
    woken_by: tuple[str, ...] = ()  # Kinds whose changes make it decide again.
    takes: tuple[str, ...] = ()  # Quotas and capacities that its decisions use up.
    waits_in: tuple[str, ...] = ()  # Queues and rate limits that its work waits in.
    calls: tuple[str, ...] = ()  # Servers that it sends requests to, and tries again.
    timers: tuple[Timer, ...] = ()
    mutates_requests: bool = False  # It changes what others write, in their own request: admission.


def covers(prefixes: Iterable[str], path: str) -> bool:
    """Whether a path is at or below one of the prefixes. A prefix may name an item of a list, as paths do."""
    steps = steps_of(path)
    return any(
        prefix == EVERYTHING or steps[: len(prefix_steps := steps_of(prefix))] == prefix_steps
        for prefix in prefixes
    )


def shared_fields(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Where two sets of prefixes meet: of two prefixes of which one is below the other, the lower one."""
    second = tuple(second)
    meeting = (_lower(one_prefix, other) for one_prefix in first for other in second)
    return tuple(dict.fromkeys(prefix for prefix in meeting if prefix))


def _lower(first: str, second: str) -> str:
    if EVERYTHING in {first, second}:
        return first if second == EVERYTHING else second
    steps, other_steps = steps_of(first), steps_of(second)
    shared = min(len(steps), len(other_steps))
    if steps[:shared] != other_steps[:shared]:
        return ""
    return first if len(steps) >= len(other_steps) else second
