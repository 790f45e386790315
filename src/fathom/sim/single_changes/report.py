"""Counts over many comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.sim.single_changes.compare import Compared


def summary_line(results: Sequence[Compared]) -> str:
    typed = [result for result in results if result.proposed]
    single = sum(result.proposed == 1 for result in typed)
    return (
        f"{len(results)} waiting pods: {len(typed)} proposals that can be typed ({single} single changes),"
        f" {sum(result.admitted for result in typed)} admitted their pod;"
        f" {sum(result.has_single for result in results)} pods have a single change by brute force;"
        f" {sum(bool(result.problems) for result in results)} disagree"
    )


def report_lines(result: Compared) -> list[str]:
    """One comparison in full."""
    return [
        f"seed {result.seed}: {result.summary}",
        f"    $ {result.command}" if result.command else "    (no command)",
        *(f"    helps: {text}" for text in result.helpful),
        *(f"    PROBLEM: {problem}" for problem in result.problems),
    ]
