"""Steps of a demonstration: data, and what counts as having gone well. Pure."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One command that a person would type."""

    text: str  # What it is for, in a sentence or two.
    command: str  # As typed into a shell: 'fathom why deployment/risk-api'
    says: tuple[str, ...] = ()  # What its output must contain.
    exit_code: int = 0
    page: str = ""  # The address of the web page that shows the same; '': none does.
    tries_s: float = 0.0  # How long it is tried again, if what it asks for takes a while; 0: once.


class Act(msgspec.Struct, frozen=True):
    title: str
    steps: tuple[Step, ...]


def trouble(step: Step, exit_code: int, output: str) -> str:
    """How the step's result differs from what it should be; '' if it does not."""
    missing = [text for text in step.says if text not in " ".join(output.split())]
    if exit_code != step.exit_code:
        return f"it ended with exit code {exit_code}, not {step.exit_code}"
    return f"it did not say {missing[0]!r}" if missing else ""
