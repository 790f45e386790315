"""The tutorial's controller in a world where everything goes wrong: `pytest test_greeting.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from greeting import GREETING, Greetings

from fathom.model.conditions import is_true
from fathom.model.objects import lookup
from fathom.sim.testing import (
    Checker,
    Found,
    HoldWatch,
    Key,
    LoseReply,
    Menu,
    Obj,
    Seen,
    Timing,
    World,
    everywhere,
    run_controllers,
    scenario,
)

DEFINITION = yaml.safe_load(Path(__file__).with_name("greeting.yaml").read_text())
HELLO = Key("default", "hello")
# Shorter than in real life, so that leaders change while things go wrong.
TIMING = Timing(duration_s=6, renew_deadline_s=4.0, retry_s=1.0)


def hello(message: str, copies: int) -> Obj:
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Greeting",
        "metadata": {"name": HELLO.name},
        "spec": {"message": message, "copies": copies},
    }


def cards(world: World) -> list[str]:
    return [str(lookup(card, "data", "message")) for card in world.list("configmaps", HELLO.namespace)]


class WantedCardsStay(Checker):
    name = "a card that is wanted is never taken away"

    def commit(self, change: Seen) -> Found:
        return f"{change.by} deleted {change.path}" if is_card(change) and change.new is None else None


class NoCardTooMany(Checker):
    name = "never more cards than the greeting wants"

    def __init__(self) -> None:
        self.there = 0

    def commit(self, change: Seen) -> Found:
        if is_card(change):
            self.there += (change.new is not None) - (change.old is not None)
        return f"{change.by} made it {self.there}" if self.there > 5 else None


def is_card(change: Seen) -> bool:
    return change.resource == "configmaps" and change.key.namespace == HELLO.namespace


@scenario(
    Menu(
        processes=("greeter-1", "greeter-2"),
        servers=("api-1", "api-2"),
        kinds=("/greetings", "/configmaps", "/leases"),
    ),
    servers=2,
    checkers=lambda: (*everywhere(), WantedCardsStay(), NoCardTooMany()),
)
async def greetings_grow(world: World) -> None:
    """Three cards become five with another message, whatever goes wrong."""
    await world.define(DEFINITION)
    for number in (1, 2):
        name = f"greeter-{number}"
        run_controllers(world, name, Greetings, server=number, lease="default/greetings", timing=TIMING)
    await world.apply(GREETING.resource, hello("good morning", copies=3))
    await world.sleep(15)
    await world.apply(GREETING.resource, hello("good evening", copies=5))
    await world.sleep(15)
    await world.heal_and_settle(quiet_s=35)
    assert cards(world) == ["good evening"] * 5
    assert is_true(world.get(GREETING.resource.name, HELLO) or {}, "Ready")


@pytest.mark.world(
    Menu(processes=("greeter",)),
    scripted=(
        LoseReply(at_s=0, target="greeter", match="POST /api/v1/namespaces/default/configmaps"),
        HoldWatch(at_s=0, target="greeter", match="/configmaps", for_s=20),
    ),
)
async def test_a_lost_answer_makes_no_second_card(world: World) -> None:
    await world.define(DEFINITION)
    run_controllers(world, "greeter", Greetings)
    await world.apply(GREETING.resource, hello("good morning", copies=1))
    await world.sleep(60)
    assert cards(world) == ["good morning"]
