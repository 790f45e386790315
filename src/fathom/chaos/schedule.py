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

# Seconds of the two parts of a run in which things go wrong: objects are applied, and later deleted.
APPLYING_S, DELETING_S = 12.0, 6.0
APPLIED_S = 6.0  # Objects are applied, one after another, within the first seconds.
FAULTS_BEGIN_S = 8.0  # All faults begin before this: what they do to the program shows before the end.
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

    @property
    def faults(self) -> tuple[AnyFault, ...]:
        return (*self.while_applying, *self.while_deleting)


def calm(documents: int) -> Schedule:
    """Nothing goes wrong: what the program makes then is what it means to make."""
    return Schedule(tuple(Step(0.0, "apply", number) for number in range(documents)), (), ())


def schedule(seed: int, *, documents: int, only: Collection[str] = FAULTS) -> Schedule:
    """`only`: the kinds of fault to choose from."""
    without = tuple(sorted(NOT_LIVE | (set(FAULTS) - set(only))))
    applying = Menu((OPERATOR,), (SERVER,), seconds=FAULTS_BEGIN_S, least=2, most=8, without=without)
    deleting = Menu((OPERATOR,), (SERVER,), seconds=DELETING_S / 2, least=0, most=3, without=without)
    return Schedule(
        _steps(random.Random(f"{seed}/story"), documents),
        tuple(map(_live, draw(random.Random(f"{seed}/applying"), applying))),
        tuple(map(_live, draw(random.Random(f"{seed}/deleting"), deleting))),
    )


def _steps(rng: random.Random, documents: int) -> tuple[Step, ...]:
    times = sorted(round(rng.uniform(0, APPLIED_S), 3) for _ in range(documents))
    steps = [Step(at_s, "apply", number) for number, at_s in enumerate(times)]  # A later one may be a change.
    touches = rng.randrange(3) if documents else 0
    for _ in range(touches):
        steps.append(
            Step(round(rng.uniform(APPLIED_S, APPLYING_S - 2), 3), "touch", rng.randrange(documents))
        )
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
