"""Conditions of runbooks: CEL over what was observed, with three values.

A condition is True, False or Unknown. What was not read, is stale, or is absent from an object is Unknown;
an expression is Unknown if its value depends on that (`known == 1 || missing.x` is True if `known` is 1), and
Unknown never passes. An object that was read and is not there is null, which is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fathom.kinds.runbook import RunbookCondition, RunbookInput, RunbookSpec
from fathom.kinds.runbook_validation import KNOWN_VARIABLES
from fathom.model.objects import Obj, lookup
from fathom.model.times import duration_ns, moment_ns, timestamp

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
SHOWN_CHARS_MAX = 256


class NoConditions(Exception):
    """The library for CEL is not installed; the message says how to install it."""


class BadCondition(Exception):
    """An expression that cannot be compiled; the message is one line."""


class Observation(msgspec.Struct, frozen=True):
    """What was read for one input. `why_unknown`: why there is no value."""

    value: Any = None
    why_unknown: str = ""


class Verdict(msgspec.Struct, frozen=True):
    name: str
    value: str
    shown: str = ""
    message: str = ""

    @property
    def passes(self) -> bool:
        return self.value == TRUE


class Facts(msgspec.Struct, frozen=True):
    """All that conditions are judged by."""

    now_ns: int
    params: Mapping[str, str]
    run: Mapping[str, Any]
    steps: Mapping[str, Any]
    observations: Mapping[str, Observation]


def fresh(given: RunbookInput, seen: Observation, now_ns: int) -> Observation:
    """The observation; Unknown if its input says that it is too old."""
    if seen.why_unknown:
        return seen
    objects = seen.value if isinstance(seen.value, list) else [seen.value]
    for obj in objects:
        if isinstance(obj, dict) and (why := _why_stale(given, obj, now_ns)):
            return Observation(None, why)
    return seen


def _why_stale(given: RunbookInput, obj: Obj, now_ns: int) -> str:
    name = lookup(obj, "metadata", "name") or given.name
    if given.observed:
        generation, observed = (
            lookup(obj, "metadata", "generation"),
            lookup(obj, "status", "observedGeneration"),
        )
        if observed != generation:
            return f"the status of {name} is about generation {observed or 'none'}, not {generation}"
    max_age_ns = duration_ns(given.max_age) if given.max_age else None
    if max_age_ns is None:
        return ""
    written = lookup(obj, *given.time_path.split("."))
    written_ns = moment_ns(written)
    if written_ns is None:
        return f"{name} does not say when it was written ({given.time_path})"
    if now_ns - written_ns > max_age_ns:
        return f"{name} is stale: written at {written}"
    if written_ns - now_ns > max_age_ns:  # Ours or the writer's: how old the object is cannot be known.
        return f"{name} is from the future: written at {written}; a clock is wrong"
    return ""


class Conditions:
    """The compiled expressions of one runbook; one without conditions does not need the library. Raises
    BadCondition, NoConditions."""

    def __init__(self, content: RunbookSpec) -> None:
        self._compiled: dict[str, Any] = {}
        self._inputs = {given.name: given for given in content.inputs}
        if not all_conditions(content):
            return
        cel = _library()
        names = (*KNOWN_VARIABLES, *(given.name for given in content.inputs))
        self._env = cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN))
        for condition in all_conditions(content):
            self._compile(condition.name, condition.expression)
            if condition.show:
                self._compile(condition.name, condition.show)

    def judge(self, conditions: Iterable[RunbookCondition], facts: Facts) -> tuple[Verdict, ...]:
        known, unknown = self._known(facts)
        return tuple(self._judge(condition, known, unknown) for condition in conditions)

    def _compile(self, name: str, expression: str) -> None:
        try:
            self._compiled[expression] = self._env.compile(expression)
        except Exception as error:  # The library raises RuntimeError, with lines that show the place.
            raise BadCondition(f"condition {name}: {str(error).splitlines()[0]}") from error

    def _known(self, facts: Facts) -> tuple[dict[str, Any], dict[str, str]]:
        values: dict[str, Any] = {
            "params": dict(facts.params),
            "run": dict(facts.run),
            "steps": dict(facts.steps),
            "now": timestamp(facts.now_ns),
        }
        unknown: dict[str, str] = {}
        for name, given in self._inputs.items():
            seen = facts.observations.get(name) or Observation(None, "it was not read")
            seen = fresh(given, seen, facts.now_ns)
            if seen.why_unknown:
                unknown[name] = seen.why_unknown
            else:
                values[name] = seen.value
        return values, unknown

    def _judge(self, condition: RunbookCondition, known: dict[str, Any], unknown: dict[str, str]) -> Verdict:
        value, fault = self._value(condition.expression, known)
        shown = ""
        if condition.show:
            evidence, trouble = self._value(condition.show, known)
            shown = trouble or str(evidence)
        shown = shown[:SHOWN_CHARS_MAX]
        if isinstance(value, bool):
            message = "" if value else condition.message
            return Verdict(condition.name, TRUE if value else FALSE, shown, message)
        return Verdict(condition.name, UNKNOWN, shown, _why_unknown(condition, value, fault, unknown))

    def _value(self, expression: str, known: dict[str, Any]) -> tuple[Any, str]:
        """The value, or why there is none."""
        try:
            result = self._compiled[expression].eval(data=known)
            if result.type() == _library().Type.ERROR:
                return None, str(result.value())
            return result.plain_value(), ""
        except Exception as error:  # What the library cannot convert or evaluate is not known.
            return None, str(error) or type(error).__name__


def _why_unknown(condition: RunbookCondition, value: Any, fault: str, unknown: Mapping[str, str]) -> str:
    named = [f"{name}: {why}" for name, why in unknown.items() if name in condition.expression]
    if named:
        return "; ".join(named)
    return fault or f"the expression gives {value!r}, which is neither true nor false"


def all_conditions(content: RunbookSpec) -> tuple[RunbookCondition, ...]:
    of_steps = (condition for step in content.steps for condition in (*step.stop_if, *step.expect))
    return (*content.preconditions, *content.stop_if, *of_steps, *content.postconditions)


def need_library() -> None:
    """For whoever will judge conditions later. Raises NoConditions."""
    _library()


def _library() -> Any:
    try:
        from cel_expr_python import cel  # noqa: PLC0415  # An extra: only runbooks need it.
    except ImportError as error:
        raise NoConditions(
            "conditions of runbooks need a library: pip install 'fathom-control[runbooks]'"
        ) from error
    return cel
