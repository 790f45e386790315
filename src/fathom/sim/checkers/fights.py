"""What the detector of fights names. A scenario with one of these checkers runs the detector in its API
servers; without one it is off, because most scenarios only pay for it."""

from __future__ import annotations

from fathom.explain.coupling.fight_texts import REASONS
from fathom.model.objects import Obj, lookup
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.world import World

EVENTS = "events"
NAMED = frozenset(REASONS.values())


def is_fight(event: Obj) -> bool:
    return event.get("reason") in NAMED


class FightsAreWatched(Checker):
    """Judges nothing: the scenario waits for what is named."""

    name = "fights are watched"

    def begin(self, world: World) -> None:
        world.engine.detect_fights = True


class NoFightIsNamed(FightsAreWatched):
    name = "no fight is named where there is none"
    resources = frozenset({EVENTS})

    def commit(self, change: Seen) -> Found:
        event = change.new
        if change.old is not None or event is None or not is_fight(event):
            return None
        about = lookup(event, "involvedObject") or {}
        return f"{event['reason']} of {about.get('kind')} {about.get('name')}: {event.get('message')}"
