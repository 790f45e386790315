"""A story with a known bug, for tests of the tools: a clerk who takes a lost answer for a refusal."""

from __future__ import annotations

import asyncio

from tests.sim.small import CONFIG_MAPS, config_map, running

from fathom.client.api import Api
from fathom.client.outcomes import Committed
from fathom.seams.process import Inside
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.scenario import scenario
from fathom.sim.world.world import World


class OneTicket(Checker):
    name = "one ticket each"

    def __init__(self) -> None:
        self._held: list[str] = []

    def commit(self, change: Seen) -> Found:
        if change.resource == "configmaps" and change.old is None:
            self._held.append(change.path)
        if len(self._held) > 1:
            return Finding(f"{change.by} drew ticket {change.key.name}", tuple(self._held))
        return None


async def draws_blindly(inside: Inside) -> None:
    """The bug: an answer that did not come is taken for a refusal, and a second ticket is drawn."""
    api, number = Api(inside.seam), 0
    while not isinstance(await api.create(CONFIG_MAPS, "default", config_map(f"ticket-{number}")), Committed):
        number += 1
        await asyncio.sleep(1)


@scenario(Menu(processes=("clerk",), seconds=3), checkers=lambda: (OneTicket(),), scale=8)
async def tickets(world: World) -> None:
    """A clerk draws a ticket."""
    world.process("clerk", running(draws_blindly))
    world.sometimes(f"scale {world.scale}")
    await world.sleep(30)


@scenario(tickets.menu, checkers=tickets.checkers)
async def late_tickets(world: World) -> None:
    """A clerk draws a ticket when everybody else has gone home."""
    await world.sleep(18)
    world.process("clerk", running(draws_blindly))
    await world.sleep(20)
