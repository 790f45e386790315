"""Named random streams of one seed, so that a draw from one stream does not change another."""

from __future__ import annotations

import random


class Streams:
    """`Streams("82219").stream("queue")` is the same sequence in every process and under every hash seed:
    Python seeds from a string by its SHA-512."""

    def __init__(self, seed: str) -> None:
        self.seed = seed

    def stream(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")
