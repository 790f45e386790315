"""Which scenario runs next, from what the runs so far have reached. Pure: the same results, the same choice.

Every second run is dealt evenly: it goes to the scenario that had the fewest. The others go where the next
run is likeliest to reach something new. What a fault met is a (fault, site, state of the process); of all
that a scenario's runs have met, the share that only one run met estimates how likely its next run meets
something that none has (Good and Turing). So a scenario whose situations are rare gets more runs, one that
always shows the same gets fewer, and none gets less than half of an even share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

# Of a scenario that shows nothing new: it still gets some steered runs, because an estimate is no proof.
LEAST = 0.05


class Reached(msgspec.Struct):
    """What the runs of one scenario have reached."""

    runs: int = 0  # Dealt, whether or not the result is known.
    steered: int = 0  # Of them, those that it got for what it reached.
    counts: dict[str, int] = msgspec.field(default_factory=dict)  # (fault, site, state) -> runs.

    def add(self, reached: Iterable[str]) -> None:
        for situation in reached:
            self.counts[situation] = self.counts.get(situation, 0) + 1

    @property
    def weight(self) -> float:
        seen = sum(self.counts.values())
        once = sum(1 for times in self.counts.values() if times == 1)
        return LEAST + (once / seen if seen else 0.0)


class Steering:
    """Deals runs to scenarios. Decides only from what was added, so it is the same on any number of cores."""

    def __init__(self, names: Sequence[str]) -> None:
        self.of = {name: Reached() for name in names}
        self._dealt = 0

    def add(self, name: str, reached: Iterable[str]) -> None:
        self.of[name].add(reached)

    def deal(self, count: int) -> list[str]:
        """The scenarios of the next runs."""
        weights = {name: reached.weight for name, reached in self.of.items()}
        return [self._next(weights) for _ in range(count)]

    def _next(self, weights: Mapping[str, float]) -> str:
        # Everyone once, before anyone twice; then in turn evenly and steered.
        even = self._dealt < len(self.of) or self._dealt % 2 == 0
        name = self._fewest() if even else self._most_promising(weights)
        self._dealt += 1
        self.of[name].runs += 1
        self.of[name].steered += not even
        return name

    def _fewest(self) -> str:
        return min(self.of, key=lambda name: self.of[name].runs - self.of[name].steered)

    def _most_promising(self, weights: Mapping[str, float]) -> str:
        """Highest averages: in the long run each gets steered runs in proportion to its weight."""
        return max(self.of, key=lambda name: weights[name] / (1 + self.of[name].steered))
