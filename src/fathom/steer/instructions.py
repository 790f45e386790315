"""What a runner is told to do next. Values, so that a run is planned without doing anything."""

from __future__ import annotations

import msgspec

from fathom.kinds.runbook import RunbookCondition

# Why conditions are judged.
BEFORE, AFTER, AT_END = "before", "after", "at the end"


class Check(msgspec.Struct, frozen=True):
    """Judge these conditions now, then ask again."""

    purpose: str
    step: str  # '' at the end.
    conditions: tuple[RunbookCondition, ...]
    stops: int = 0  # How many of them, the last ones, are signs of a regression: False is good.


class Act(msgspec.Struct, frozen=True):
    """Record the step as Acting (as Undoing), then do its action (its compensation)."""

    step: str
    undo: bool = False


class Begin(msgspec.Struct, frozen=True):
    """A step that writes nothing begins."""

    step: str


class Settle(msgspec.Struct, frozen=True):
    """The outcome is unknown: find out by reading whether the step (its compensation) was done."""

    step: str
    undo: bool = False


class Ask(msgspec.Struct, frozen=True):
    step: str
    question: str


class Conclude(msgspec.Struct, frozen=True):
    """The step is done."""

    step: str


class Keep(msgspec.Struct, frozen=True):
    """The step has no compensation: its effect stays, or ends by itself."""

    step: str


class Sleep(msgspec.Struct, frozen=True):
    until_ns: int
    why: str


class Stop(msgspec.Struct, frozen=True):
    """A person must look. With `undo`, the run is undone instead."""

    reason: str
    message: str
    undo: bool = False


class Finish(msgspec.Struct, frozen=True):
    phase: str
    reason: str
    message: str = ""


class Halt(msgspec.Struct, frozen=True):
    """Nothing to do: the run has ended, or a person must resume or abort it."""

    phase: str


Instruction = Check | Act | Begin | Settle | Ask | Conclude | Keep | Sleep | Stop | Finish | Halt
