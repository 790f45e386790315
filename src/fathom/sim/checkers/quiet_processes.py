"""Internal state of processes at rest: no unfinished work, nothing unconfirmed, a scheduler's sums right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fathom.api.resource_cache import REGISTRY
from fathom.control.process import Controllers
from fathom.control.retry import Retry, RetryTrouble
from fathom.model.objects import Key, lookup, uid_of
from fathom.model.resource_names import LEASES
from fathom.schedule.loop.process import SchedulerProcess
from fathom.sim.checkers.capacity import held
from fathom.sim.world.invariants import RESERVATIONS, Checker, Finding
from fathom.sim.world.store_link import at_once

if TYPE_CHECKING:
    from fathom.control.lease import LeaseStatus
    from fathom.schedule.loop.state import SchedulerState
    from fathom.sim.world.servers import SimServer
    from fathom.sim.world.world import World

# A retry that is overdue by more than this will never happen.
LATE_NS = 5_000_000_000

POLICY = Retry()
SIGNALS = "componentsignals.fathom.dev"

Sums = dict[str, dict[str, int]]


class NothingIsLeftInHand(Checker):
    """For processes that may act now (leaders, or without a lease). Work in progress ends, sent requests get
    a known outcome: else nothing ever looks at them again, and the capacity that they hold is lost."""

    name = "no work is left unfinished when settled"
    patience_s = 90.0  # A controller may just be working.

    def settled(self, world: World) -> Iterable[str | Finding]:
        sums, reserved = _sums(world), {uid_of(reservation) for reservation in world.list(RESERVATIONS)}
        for name, process in world.engine.processes.items():
            state = process.state
            if not process.alive:
                continue
            if isinstance(state, Controllers) and may_act(state):
                yield from _of_controllers(name, state)
            elif isinstance(state, SchedulerProcess) and may_act(state):
                yield from (
                    f"{name}: {problem}" for problem in _of_scheduler(state.scheduler._state, sums, reserved)
                )


def may_act(state: object) -> bool:
    """Whether it leads, or works without a lease."""
    status = lease_status(state)
    return status is None or status.state == "leading"


def _of_controllers(name: str, running: Controllers) -> Iterator[str]:
    for loop in running.loops:
        for entry in loop.queue.in_hand:
            yield f"{name}: {loop.name} is still reconciling {'/'.join(entry.key)}"
        for key in loop.queue.order():
            yield f"{name}: {loop.name} has {'/'.join(key)} in its queue, and no worker takes it"
        now_ns = running._inside.outside.clock.monotonic_ns()
        for key, trouble in loop.queue.troubles.items():
            if trouble.next_ns is not None and trouble.next_ns < now_ns - LATE_NS:
                yield f"{name}: {loop.name} has an overdue retry of {'/'.join(key)}"
            if trouble.given_up and _too_soon(trouble, now_ns):
                yield f"{name}: {loop.name} gave up on {'/'.join(key)} after only {trouble.attempts} attempts"


def _too_soon(trouble: RetryTrouble, now_ns: int) -> bool:
    """It gave up before it had retried as often, or for as long, as it should, less one last wait."""
    least_s = POLICY.deadline_s - POLICY.backoff_s_max
    return trouble.attempts < POLICY.attempts_max and now_ns - trouble.since_ns < least_s * 1e9


def _of_scheduler(state: SchedulerState, sums: Sums, reserved: set[str]) -> Iterator[str]:
    for uid, reservation in state.known.held_for.items():
        if reservation.uid not in reserved:
            yield f"it counts {reservation.holder} for pod {uid}, but that reservation does not exist"
    for uid, sent in state.sent.items():
        yield f"the binding of {'/'.join(sent.pod.key)} ({uid}) to {sent.request.node} has no outcome"
    for uid in state.landed:
        yield f"pod {uid} was bound, but the scheduler's cache does not show it"
    for uid, pod in state.waiting.items():
        if state.pods.is_taken(uid):
            yield f"{'/'.join(pod.key)} is still being scheduled"
    table = state.known.table
    for placed in table.placed.values():
        if placed.assumed:
            yield f"{'/'.join(placed.view.key)} is still assumed on {placed.node}"
    for node, row in table.row_of.items():
        truth = sums.get(node, {})
        for resource, column in table.resources.items():
            believed = int(table.tally.requested[row, column])
            if believed != truth.get(resource, 0):
                yield f"it counts {resource} {believed} on {node}, its pods hold {truth.get(resource, 0)}"


def _sums(world: World) -> Sums:
    totals: Sums = {}
    for pod in world.list("pods"):
        holding = held("pods", pod)
        if holding is None:
            continue
        node, _, amounts = holding
        sums = totals.setdefault(node, {})
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return totals


class SomebodyLeads(Checker):
    """At rest: of the processes that share a lease exactly one leads, and the lease names it."""

    name = "exactly one replica leads when settled"
    patience_s = 60.0

    def settled(self, world: World) -> Iterable[str | Finding]:
        leaders: dict[Key, list[str]] = {}
        for process in world.engine.processes.values():
            status = lease_status(process.state) if process.alive else None
            if status is not None:
                leading = [status.identity] if status.state == "leading" else []
                leaders.setdefault(status.lease, []).extend(leading)
        for key, identities in leaders.items():
            lease = world.get(LEASES, key)
            holder = lookup(lease, "spec", "holderIdentity")
            if identities != [holder]:
                path = f"{LEASES}/{key.namespace}/{key.name}"
                yield Finding(f"{path} is held by {holder}, but {identities or 'nobody'} leads", (path,))


def lease_status(state: object) -> LeaseStatus | None:
    if isinstance(state, Controllers):
        return state.lease_status
    return state._station.lease_status if isinstance(state, SchedulerProcess) else None


class SignalsAreOfWhoLeads(Checker):
    """At rest: what is published of a component is what its leader notices now. An earlier leader may have
    published other signals, and died."""

    name = "published signals are those of the present leader when settled"
    patience_s = 60.0

    def settled(self, world: World) -> Iterable[str | Finding]:
        for name, process in world.engine.processes.items():
            state = process.state
            if not process.alive or not isinstance(state, Controllers) or not state._settings.signals:
                continue
            if not may_act(state):
                continue
            path = Key("", state._settings.signals)
            signals = lookup(world.get(SIGNALS, path), "status", "signals") or ()
            published, noticed = (
                sorted(str(each.get("name")) for each in signals),
                sorted(state.health.raised()),
            )
            if published != noticed:
                message = f"{name} notices {noticed or 'nothing'}, published is {published or 'nothing'}"
                yield Finding(message, (f"{SIGNALS}/{path.name}",))


class ServersKnowTheStore(Checker):
    """At rest: the watch cache of every API server equals the store."""

    name = "API servers' caches equal the store when settled"
    patience_s = 60.0

    def settled(self, world: World) -> Iterable[str | Finding]:
        page = at_once(world.engine.store.range(REGISTRY))
        truth = {entry.key: entry.revision for entry in page.entries}
        for process in world.servers:
            server: SimServer = process.state
            if not process.alive or not server.ready:
                continue
            cache = server.parts.core.cache
            cached = {
                key: entry.revision
                for resource in cache.resources()
                for key, entry in cache.of(resource).entries.items()
            }
            if cached == truth:
                continue
            key = min(cached.items() ^ truth.items())[0]
            yield f"{key}: {process.name} has revision {cached.get(key)}, the store has {truth.get(key)}"
