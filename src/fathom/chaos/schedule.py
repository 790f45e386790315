"""What goes wrong in a run, and when: a pure function of the seed. The faults are those of the simulator."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Literal

import msgspec

from fathom.sim.world.fault_menu import Menu, draw
from fathom.sim.world.faults import MAKERS, AnyFault, Refuse, SlowReply, SlowRequest

OPERATOR = "operator"  # The program under test, in faults and reports.
SERVER = "api-1"

# Only a simulator can do these: another clock, an answer lost between server and store, state of a process.
NOT_LIVE = frozenset({"skew", "commit-unknown", "commit-lost", "rebase", "happening"})
FAULTS = tuple(dict.fromkeys(name for name, _ in MAKERS if name not in NOT_LIVE))

WINDOW_S = 12.0  # How long things go wrong while objects are applied; half as long while they are deleted.
# Parts of the window. All faults begin before its end: what they do to the program shows before it.
APPLIED, FAULTS_BEGIN = 1 / 2, 2 / 3
LONGEST_S = 5.0  # In simulated time a delay costs nothing; here it does.

UPDATES = ("PUT ", "PATCH ", "DELETE ")


class Step(msgspec.Struct, frozen=True):
    """What the person beside the cluster does: applies a document, or changes an annotation of its object."""

    at_s: float
    action: Literal["apply", "touch"]
    document: int  # Which of those that are applied while things go wrong.


class Schedule(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]
    while_applying: tuple[AnyFault, ...]
    while_deleting: tuple[AnyFault, ...]
    window_s: float = WINDOW_S

    @property
    def faults(self) -> tuple[AnyFault, ...]:
        return (*self.while_applying, *self.while_deleting)


def calm(documents: int) -> Schedule:
    """Nothing goes wrong: what the program makes then is what it means to make."""
    return Schedule(tuple(Step(0.0, "apply", number) for number in range(documents)), (), ())


def schedule(
    seed: int, *, documents: int, only: Collection[str] = FAULTS, window_s: float = WINDOW_S
) -> Schedule:
    """`only`: the kinds of fault to choose from."""
    without = tuple(sorted(NOT_LIVE | (set(FAULTS) - set(only))))
    begin_s = window_s * FAULTS_BEGIN
    applying = Menu((OPERATOR,), (SERVER,), seconds=begin_s, least=2, most=8, without=without)
    deleting = Menu((OPERATOR,), (SERVER,), seconds=begin_s / 2, least=0, most=3, without=without)
    return Schedule(
        _steps(random.Random(f"{seed}/story"), documents, window_s),
        tuple(map(_live, draw(random.Random(f"{seed}/applying"), applying))),
        tuple(map(_live, draw(random.Random(f"{seed}/deleting"), deleting))),
        window_s,
    )


def _steps(rng: random.Random, documents: int, window_s: float) -> tuple[Step, ...]:
    applied_s = window_s * APPLIED
    times = sorted(round(rng.uniform(0, applied_s), 3) for _ in range(documents))
    steps = [Step(at_s, "apply", number) for number, at_s in enumerate(times)]  # A later one may be a change.
    touches = rng.randrange(3) if documents else 0
    for _ in range(touches):
        at_s = round(rng.uniform(applied_s, window_s), 3)
        steps.append(Step(at_s, "touch", rng.randrange(documents)))
    return tuple(sorted(steps, key=lambda step: step.at_s))


def _live(fault: AnyFault) -> AnyFault:
    """The fault, no longer than a person wants to wait, and no conflict where a server has none to tell: a
    create that is refused with 409 exists already."""
    fault = msgspec.structs.replace(fault, for_s=min(fault.for_s, LONGEST_S))
    if isinstance(fault, SlowRequest | SlowReply):
        return msgspec.structs.replace(fault, delay_s=min(fault.delay_s, LONGEST_S))
    if isinstance(fault, Refuse) and fault.status == 409 and fault.match not in UPDATES:
        return msgspec.structs.replace(fault, match=UPDATES[0])
    return fault
