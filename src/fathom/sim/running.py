"""Controllers as a process of the world, wired as live ones are, with the checkers of caches looking on.

run_controllers(world, "manager-1", Replicator, Finisher, lease="fathom-system/manager", who="manager-1")
"""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.control.process import Controller, Controllers, Settings, Watchers
from fathom.model.objects import Key
from fathom.seams.process import Inside
from fathom.sim.checkers.caches import CachesAreTrue, Sight
from fathom.sim.checkers.leaders import WritesWithinTheTerm
from fathom.sim.process import Process
from fathom.sim.world import World


def run_controllers(
    world: World, name: str, *controllers: Controller, server: int = 1, **settings: Any
) -> Process:
    """From now on. `settings` are those of `control.process`: lease, timing, workers, …"""
    checker = next((one for one in world.checkers if isinstance(one, CachesAreTrue)), None)
    _elect(world, name, str(settings.get("lease", "")))

    def entry(inside: Inside) -> Controllers:
        sight = Sight(checker, world.engine, name) if checker is not None else None
        running = Controllers(
            inside,
            controllers,
            msgspec.convert({"who": name, "user_agent": name, **inside.options}, Settings, strict=False),
            watchers=Watchers(caches=sight),
        )
        if sight is not None:
            sight.over(running.caches)
        inside.domain.create_task(running.run(), name=name)
        return running

    return world.process(name, entry, server=server, **settings)


def _elect(world: World, name: str, lease: str) -> None:
    """Whoever shares a lease with others writes only while it is theirs."""
    for checker in world.checkers:
        if lease and isinstance(checker, WritesWithinTheTerm):
            checker.elected[name] = Key(*lease.split("/"))
