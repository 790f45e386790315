"""Run controllers as a process of the world, wired as live ones are, with the cache checkers attached.

run_controllers(world, "manager-1", Replicator, Finisher, lease="fathom-system/manager", who="manager-1")
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fathom.control.process import Controller, Controllers, ControllerSettings, Watchers
from fathom.model.cause import WakeCause
from fathom.model.objects import Key
from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.checkers.caches import CacheInspector, CachesAreTrue
from fathom.sim.checkers.leaders import WritesWithinTheTerm
from fathom.sim.world.process import SimProcess
from fathom.sim.world.world import World


def run_controllers(
    world: World,
    name: str,
    *controllers: Controller,
    server: int = 1,
    account: User | None = None,
    **settings: Any,
) -> SimProcess:
    """Start the process now. `settings` are those of `control.process`: lease, timing, workers, …"""
    checker = next((checker for checker in world.checkers if isinstance(checker, CachesAreTrue)), None)
    _elect(world, name, str(settings.get("lease", "")))

    def entry(inside: Inside) -> Controllers:
        sight = CacheInspector(checker, world.engine, name) if checker is not None else None
        running = Controllers(
            inside,
            controllers,
            msgspec.convert(
                {"who": name, "user_agent": name, **inside.options}, ControllerSettings, strict=False
            ),
            watchers=Watchers(caches=sight),
            only_declared_fields=True,
        )
        if sight is not None:
            sight.over(running.caches)
        inside.domain.create_task(running.run(), name=name)
        return running

    return world.process(name, entry, server=server, account=account, **settings)


def nudge(world: World, *names: str) -> None:
    """Enqueue every known object for these processes' controllers, though nothing has changed."""
    for process, running in _running(world, names):
        process.call(0, _look_at_all, running)


def _look_at_all(running: Controllers) -> None:
    for loop in running.loops:
        loop._waker.look_at_all(WakeCause("resync", "nudged"))


def shuffle(world: World, *names: str) -> None:
    """Put the keys that wait in these processes' queues into a random order."""
    for process, running in _running(world, names):
        process.call(0, _shuffle, running, world.engine.streams.stream(f"shuffle/{process.name}"))


def _shuffle(running: Controllers, rng: random.Random) -> None:
    for loop in running.loops:
        lines = loop.queue._lines
        entries = [entry for entry in iter(lines.pop, None) if entry is not None]
        orders = [entry.order for entry in entries]
        rng.shuffle(orders)
        for entry, order in zip(entries, orders, strict=True):
            entry.order = order
            lines.push(entry)


def _running(world: World, names: Sequence[str]) -> Iterator[tuple[SimProcess, Controllers]]:
    for name in names:
        process = world.engine.processes[name]
        if process.alive and isinstance(process.state, Controllers):
            yield process, process.state


def _elect(world: World, name: str, lease: str) -> None:
    """Register the process with `WritesWithinTheTerm`: it may write only while it holds the lease."""
    for checker in world.checkers:
        if lease and isinstance(checker, WritesWithinTheTerm):
            checker.elected[name] = Key(*lease.split("/"))
