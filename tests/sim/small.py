"""Small worlds for tests: a few lines of deciding code, a story, and the faults that meet it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from fathom.client.api import Api, Resource
from fathom.client.events import decode_events
from fathom.model.objects import Obj, metadata
from fathom.seams.process import Inside
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Result, RunPlan, Scenario, ScenarioRun, Strategy
from fathom.sim.world.world import World

CONFIG_MAPS = Resource("", "v1", "configmaps")
SECRETS = Resource("", "v1", "secrets")

Main = Callable[[Inside], Coroutine[Any, Any, None]]


def soon(coro: Coroutine[Any, Any, Any]) -> None:
    asyncio.get_running_loop().create_task(coro)


def running(main: Main) -> Callable[[Inside], Inside]:
    """An entry with one task. Its state is its Inside."""

    def entry(inside: Inside) -> Inside:
        soon(main(inside))
        return inside

    return entry


def config_map(name: str, **data: str) -> Obj:
    return {"metadata": {"name": name}, "data": data}


def story(
    told: Callable[[World], Awaitable[None]],
    *,
    servers: int = 1,
    checkers: Callable[[], Sequence[Checker]] = tuple,
    processes: tuple[str, ...] = ("worker",),
) -> Scenario:
    return Scenario(
        name=told.__name__,
        about="",
        story=told,
        menu=Menu(processes=processes),
        servers=servers,
        checkers=checkers,
    )


def scenario_run(
    scenario: Scenario,
    faults: Sequence[AnyFault] = (),
    *,
    seed: str = "1",
    strategy: Strategy = "random",
    chronicle: Chronicle | None = None,
) -> ScenarioRun:
    plan = RunPlan(scenario=scenario.name, seed=seed, strategy=strategy, faults=tuple(faults))
    return ScenarioRun(scenario, plan, chronicle=chronicle)


def told(scenario: Scenario, faults: Sequence[AnyFault] = (), **options: Any) -> Result:
    return scenario_run(scenario, faults, **options).run()


def passes(scenario: Scenario, faults: Sequence[AnyFault] = (), **options: Any) -> Result:
    result = told(scenario, faults, **options)
    assert result.violation is None, result.violation
    return result


class Watcher:
    """A process that watches one kind and writes down what it hears and when."""

    def __init__(self, resource: Resource = CONFIG_MAPS, *, namespace: str = "default") -> None:
        self._resource = resource
        self._namespace = namespace
        self.heard: list[tuple[float, str, str]] = []  # (second of the world, type, name)
        self.ended: list[float] = []
        self.opened: list[float] = []

    async def main(self, inside: Inside) -> None:
        loop = asyncio.get_running_loop()
        stream = await Api(inside.seam).watch(self._resource, self._namespace, resourceVersion="0")
        self.opened.append(loop.time())
        while (chunks := await stream.read()) is not None:
            for event in decode_events(chunks):
                self.heard.append((loop.time(), event.type, str(metadata(event.obj).get("name"))))
        self.ended.append(loop.time())

    @property
    def names(self) -> list[str]:
        return [name for _, kind, name in self.heard if kind == "ADDED"]
