"""Users' own rules: entry points of the group `fathom.rules`.

Each names a `FilterRule`, `TopologyFilter`, `Score` or `SoftScore`, a tuple of them, or a function without
arguments that returns either. They come after the built-in ones of their kind, in the order of their entry
points' names. This file reads what is installed, so it is not part of the decision: it runs once, at start.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import msgspec

from fathom.schedule.decide.rules import RULES, FilterRule, Rule, Rules, Score, SoftScore, TopologyFilter

GROUP = "fathom.rules"


class RuleError(ValueError):
    """A rule that cannot be used; the message is for the operator who installed it."""


def installed_rules(rules: Rules = RULES) -> Rules:
    """The built-in rules and the installed ones."""
    return with_rules(rules, loaded(_installed()))


@cache
def _installed() -> Iterable[EntryPoint]:
    """Read once: it takes milliseconds, and a simulation starts many schedulers."""
    return entry_points(group=GROUP)


def loaded(points: Iterable[EntryPoint]) -> list[Rule]:
    rules: list[Rule] = []
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        rules += _from(point)
    return rules


def with_rules(rules: Rules, more: Iterable[Rule]) -> Rules:
    listed = list(more)
    names = [rule.name for rule in (*rules.filters, *rules.scores)]
    for rule in listed:
        if rule.name in names:
            raise RuleError(f"there is already a rule named {rule.name!r}")
        names.append(rule.name)
    return msgspec.structs.replace(
        rules,
        filters=(*rules.filters, *(rule for rule in listed if isinstance(rule, FilterRule | TopologyFilter))),
        scores=(*rules.scores, *(rule for rule in listed if isinstance(rule, Score | SoftScore))),
    )


def _from(point: EntryPoint) -> list[Rule]:
    source = f"entry point {point.name!r} ({point.value}) of {GROUP}"
    try:
        value = point.load()
        if callable(value) and not isinstance(value, FilterRule | TopologyFilter | Score | SoftScore):
            value = value()
    except Exception as error:
        raise RuleError(f"{source} cannot be loaded: {type(error).__name__}: {error}") from error
    listed = list(value) if isinstance(value, tuple | list) else [value]
    for rule in listed:
        if not isinstance(rule, FilterRule | TopologyFilter | Score | SoftScore):
            raise RuleError(f"{source} is not a rule but {type(rule).__name__}")
    return listed
