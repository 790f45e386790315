"""Parse ranges of seeds: 'A..B' is from A up to, but without, B."""

from __future__ import annotations


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
