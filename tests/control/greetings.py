"""The tutorial's controller as tests meet it: its definition, its objects, and a process of it in a world."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from fathom.client.api import Resource
from fathom.control.loop import Passed
from fathom.control.process import Controllers, ControllerSettings, Watchers
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.decision import Decision, Outcome, Table
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.seams.process import Inside
from fathom.seams.seam import Ask
from fathom.sim.world.world import World

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
GREETINGS = Resource("example.dev", "v1", "greetings")
MAPS = Resource("", "v1", "configmaps")


def example() -> ModuleType:
    if "greeting" not in sys.modules:
        spec = importlib.util.spec_from_file_location("greeting", EXAMPLES / "greeting.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["greeting"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["greeting"]


def definition() -> Obj:
    found: Obj = yaml.safe_load((EXAMPLES / "greeting.yaml").read_text())
    return found


def greeting(name: str, *, copies: int = 1, message: str = "hello", **meta: Any) -> Obj:
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Greeting",
        "metadata": {"name": name, **meta},
        "spec": {"message": message, "copies": copies},
    }


class Written:
    """A journal in memory."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.outcomes: list[Outcome] = []

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def concluded(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def tabled(self, table: Table) -> None: ...


class Said:
    """A log in memory."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warn = error = info


class Hosted:
    """One incarnation of a process of controllers, and what it did."""

    def __init__(self, inside: Inside, controllers: Sequence[Any], settings: ControllerSettings) -> None:
        self.inside = inside
        self.journal = inside.journal = Written()
        self.log = inside.log = Said()
        self.passes: list[Passed] = []
        self.asks: list[tuple[float, Ask]] = []
        kept = inside.seam.on_ask

        def note(number: int, ask: Ask, checksum: int) -> None:
            self.asks.append((inside.domain.now_ns / 1e9, ask))
            if kept is not None:
                kept(number, ask, checksum)

        inside.seam.on_ask = note
        self.running = Controllers(inside, controllers, settings, watchers=Watchers(loops=self))
        self.running.start()
        self.task = self.running.task

    def passed(self, passed: Passed) -> None:
        self.passes.append(passed)


def hosting(*controllers: Any, **settings: Any) -> Callable[[Inside], Hosted]:
    """An entry for `World.process`."""
    chosen = ControllerSettings(**settings)
    return lambda inside: Hosted(inside, controllers or (example().Greetings,), chosen)


def hosted(world: World, name: str = "kit") -> Hosted:
    found = world.state(name)
    assert isinstance(found, Hosted)
    return found


async def define(world: World) -> None:
    await world.apply(DEFINITIONS, definition())


async def greet(world: World, name: str, **options: Any) -> Obj:
    return await world.apply(GREETINGS, greeting(name, **options))


def look(world: World, name: str) -> Obj:
    found = world.get(GREETINGS.name, Key("default", name))
    assert found is not None, f"there is no {name}"
    return found


def cards(world: World) -> dict[str, str]:
    """Name -> message of every copy in the store."""
    return {
        str(metadata(card)["name"]): str(lookup(card, "data", "message"))
        for card in world.list("configmaps", "default")
        if "message" in (card.get("data") or {})
    }


def said(world: World, name: str, type_: str) -> tuple[str, str, int | None] | None:
    """(status, reason, observed generation) of a condition."""
    found = find_condition(conditions_of(look(world, name)), type_)
    if found is None:
        return None
    return found["status"], found["reason"], found.get("observedGeneration")


def is_ready(world: World, name: str) -> bool:
    """For the generation that is there now."""
    return said(world, name, "Ready") == ("True", "AllWritten", metadata(look(world, name))["generation"])
