"""What the detector of fights names. A scenario with one of these checkers runs the detector in its API
servers; without one it is off, because most scenarios only pay for it."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.explain.coupling.fight_texts import REASONS
from fathom.model.objects import Obj, lookup
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.world import World

EVENTS = "events"
NAMED = frozenset(REASONS.values())


def is_fight(event: Obj) -> bool:
    return event.get("reason") in NAMED


class FightsAreWatched(Checker):
    """At rest nobody fights, and no condition says that somebody does. What is named meanwhile, the scenario
    waits for."""

    name = "no fight is reported when settled"
    patience_s = 240.0  # An API server looks at what others have reported every minute and a half.

    def begin(self, world: World) -> None:
        world.engine.detect_fights = True

    def settled(self, world: World) -> Iterable[str | Finding]:
        for signals in world.list("componentsignals.fathom.dev"):
            for condition in lookup(signals, "status", "conditions") or ():
                if condition.get("type") in REASONS and condition.get("status") == "True":
                    yield f"{condition['type']} is True, and nothing is written: {condition.get('message')}"


class NoFightIsNamed(FightsAreWatched):
    name = "no fight is named where there is none"
    resources = frozenset({EVENTS})

    def commit(self, change: Seen) -> Found:
        event = change.new
        if change.old is not None or event is None or not is_fight(event):
            return None
        about = lookup(event, "involvedObject") or {}
        return f"{event['reason']} of {about.get('kind')} {about.get('name')}: {event.get('message')}"
