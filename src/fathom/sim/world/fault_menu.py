"""Menu: which faults a scenario may get; `draw` chooses some of them at random (`faults.MAKERS`)."""

from __future__ import annotations

import random

import msgspec

from fathom.sim.world.faults import MAKERS, REFUSALS, AnyFault, FaultDraft, LoseRequest, Refuse

METHODS = ("POST", "PUT", "PATCH", "DELETE")
LONG_S, EACH_TIME = 30.0, 1_000_000


class Menu(msgspec.Struct, frozen=True):
    processes: tuple[str, ...]  # Processes that may crash, pause, be partitioned.
    servers: tuple[str, ...] = ("api-1",)
    kinds: tuple[str, ...] = ("",)  # Parts of paths ('/pods') whose watches and writes may be singled out.
    happenings: tuple[str, ...] = ()  # Events that the scenario defines, by name.
    seconds: float = 30.0  # Faults begin within this time.
    most: int = 6
    least: int = 0
    without: tuple[str, ...] = ()  # Kinds of fault that this scenario cannot have.
    # Whose wall clocks `clock_steps` may set; (): those of `processes`. API servers only where they are
    # named: by their clocks overrides end, and a scenario that judges this by the true time would break.
    clocks: tuple[str, ...] = ()


def draw(rng: random.Random, menu: Menu) -> list[AnyFault]:
    """Some faults, at random times, mostly short; in the order in which they begin."""
    makers = [make for name, make in MAKERS if name not in menu.without and _possible(name, menu)]
    faults = [rng.choice(makers)(_draft(rng, menu)) for _ in range(rng.randrange(menu.least, menu.most + 1))]
    return sorted(faults, key=lambda fault: fault.at_s)


def long_failure(rng: random.Random, menu: Menu) -> AnyFault | None:
    """Writes of one sort by one process fail for half a minute, however often it tries. None: the menu has no
    such fault."""
    kinds = [kind for kind in (Refuse, LoseRequest) if kind.__struct_config__.tag not in menu.without]
    if not kinds:
        return None
    at_s, target = round(rng.random() * menu.seconds, 3), rng.choice(menu.processes)
    match = f"{rng.choice((*METHODS, 'PATCH'))} "  # Most writes are patches.
    if rng.choice(kinds) is LoseRequest:
        return LoseRequest(at_s=at_s, for_s=LONG_S, target=target, match=match, times=EACH_TIME)
    status = rng.choice(REFUSALS)
    return Refuse(at_s=at_s, for_s=LONG_S, target=target, match=match, times=EACH_TIME, status=status)


def _possible(name: str, menu: Menu) -> bool:
    return name != "happening" or bool(menu.happenings)


def _draft(rng: random.Random, menu: Menu) -> FaultDraft:
    kind, method = rng.choice(menu.kinds), rng.choice((*METHODS, ""))
    return FaultDraft(
        at_s=round(rng.random() * menu.seconds, 3),
        for_s=round(0.2 + rng.expovariate(1 / 4.0), 3),
        process=rng.choice(menu.processes),
        server=rng.choice(menu.servers),
        kind=kind,
        asks=f"{method} " if method else kind,
        often=rng.choice((1, 1, 1, 3)),
        number=rng.randrange(1, 6),
        share=rng.random(),
        happening=rng.choice(menu.happenings or ("",)),
    )
