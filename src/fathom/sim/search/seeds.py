"""Ranges of seeds: 'A..B' is from A up to, but without, B; and which scenario runs with which seed."""

from __future__ import annotations

from collections.abc import Sequence


class BadSeeds(Exception):
    """The message is one line: what is expected."""


def seeds_of(text: str) -> range:
    """A single number is that seed alone."""
    low, dots, high = text.partition("..")
    if not low.isdigit() or (dots and not high.isdigit()):
        raise BadSeeds(f"{text}: expected A..B, for example 0..500")
    seeds = range(int(low), int(high)) if dots else range(int(low), int(low) + 1)
    if not seeds:
        raise BadSeeds(f"{text}: the range is empty")
    return seeds


def everyone(names: Sequence[str], seeds: range) -> list[tuple[str, str]]:
    return [(name, str(seed)) for seed in seeds for name in names]


def in_turn(names: Sequence[str], seeds: range) -> list[tuple[str, str]]:
    """Each seed for one scenario, in turn; every scenario and every seed at least once. So a thousand seeds
    are a thousand runs, however many scenarios there are."""
    count = max(len(names), len(seeds))
    return [(names[at % len(names)], str(seeds[at % len(seeds)])) for at in range(count)]
