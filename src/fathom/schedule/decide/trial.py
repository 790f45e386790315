"""Trials: the decision made again with a change to the pod's spec, to its context, or to the rules.

Every remedy has passed such a trial, so an operator who applies it gets the pod admitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.rows import Rows
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.shape_scan import ShapeScan
from fathom.schedule.decide.verdicts import FITS

# The effort of a remedy, for ordering those of one count (docs/why.md has the order in words). The pod's spec
# is what its owner wants: a grant comes before room that must be found, both before a change of the spec, and
# a change of where it may run last of those: the answer is what blocks it on the nodes that it selects, not
# that it could have selected others. Last, what no command does: to add a node, or to empty one.
WAIT, GRANT, ROOM, WISH, ELSEWHERE, BUILD = range(6)


class Effect(msgspec.Struct, frozen=True):
    """A change as the decider sees it: other fields of the pod's spec, of its context, rules that are met."""

    spec: dict[str, Any] = {}
    world: dict[str, Any] = {}
    lifts: tuple[str, ...] = ()


class Remedy(msgspec.Struct, frozen=True):
    """A change after which the pod would fit."""

    rule: str
    change: str  # 'node-7 lacks 200m cpu (500m cpu requested, 300m free)'
    by: str  # Who can make the change.
    nodes: int  # How many nodes it would open.
    effort: int  # Among remedies, the least effort comes first.
    amount: int = 0  # How much of it, to compare two of a kind.
    node: str = ""  # A node that would take the pod then.
    about: tuple[
        str, ...
    ] = ()  # What is to change: the taint, the label, the override, the class, the claim.
    # Amounts that are to change. Room: (resource, requested, free). Quota: (resource, limit, new limit).
    short: tuple[tuple[str, int, int], ...] = ()
    parts: tuple[Remedy, ...] = ()  # Of a remedy that takes several changes: each of them.
    count: int = 1  # How many fields or objects change. Fewer come first, whatever the effort.
    ways: int = 1  # How many changes just like it there are, such as nodes to uncordon.
    effect: Effect = Effect()

    @property
    def size(self) -> tuple[int, int, int]:
        """Remedies of one size are equally small."""
        return self.count, self.effort, self.amount if self.effort == ROOM else 0


class Trial(msgspec.Struct, frozen=True):
    shape: PodShape
    table: NodeTable
    world: PlacementContext
    rules: Rules = RULES
    only: int | None = None  # A row: all other nodes are ignored.

    def opened(
        self, *, without: Iterable[str] = (), world: dict[str, Any] | None = None, **fields: Any
    ) -> Rows:
        """The nodes that would take the pod with another spec, in another context, without some rules."""
        shape = msgspec.structs.replace(self.shape, **fields) if fields else self.shape
        context = msgspec.structs.replace(self.world, **world) if world else self.world
        scan = ShapeScan(shape, self.table, context, without_rules(self.rules, without))
        fitting = np.flatnonzero(scan.codes() == FITS)
        return Rows(self.table, fitting if self.only is None else fitting[fitting == self.only])

    def opened_by(self, effect: Effect) -> Rows:
        return self.opened(without=effect.lifts, world=effect.world, **effect.spec)

    def on(self, row: int) -> Trial:
        """The trial on one node."""
        return msgspec.structs.replace(self, only=row)

    def by(self, rule: str) -> Trial:
        """The trial by one rule."""
        others = (other.name for other in self.rules.filters if other.name != rule)
        return msgspec.structs.replace(self, rules=without_rules(self.rules, others))

    def after(self, effect: Effect) -> Trial:
        """The trial with a change already made."""
        return msgspec.structs.replace(
            self,
            shape=msgspec.structs.replace(self.shape, **effect.spec),
            world=msgspec.structs.replace(self.world, **effect.world),
            rules=without_rules(self.rules, effect.lifts),
        )


def without_rules(rules: Rules, names: Iterable[str]) -> Rules:
    left_out = frozenset(names)
    if not left_out:
        return rules
    return msgspec.structs.replace(
        rules, filters=tuple(rule for rule in rules.filters if rule.name not in left_out)
    )
