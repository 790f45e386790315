"""One flag for each change that an override can make, from the table of changes and the kind's Struct.

pauseAutoscaler      --pause-autoscaler
avoidZones           --avoid-zone eu-west-a --avoid-zone eu-west-b     or --avoid-zone eu-west-a,eu-west-b
avoidTopology        --avoid-topology example.com/rack=r1
trafficWeights       --traffic-weight eu-west=90
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import msgspec
from cyclopts import Parameter

from fathom.cli.problem import Problem
from fathom.kinds.override_changes import CHANGES
from fathom.kinds.scheduler_override import Changes

# Where the field's own name is long to type; that is accepted too.
SHORT = {"allow_reserved_capacity_class": "--allow-class"}


class ChangeFlag(msgspec.Struct, frozen=True):
    change: str  # The field of `spec.changes`.
    field: str  # The Struct's name of it.
    names: tuple[str, ...]
    type: Any  # Of the flag's value.
    default: Any
    value: Callable[[Any], Any] = lambda value: value  # From the flag's value to the field's.


def _flags() -> Iterator[ChangeFlag]:
    hints = get_type_hints(Changes)
    for change, field in zip(Changes.__struct_encode_fields__, Changes.__struct_fields__, strict=True):
        shape = get_origin(hints[field]) or hints[field]
        flag = f"--{field.replace('_', '-')}"
        if shape is bool:
            yield ChangeFlag(change, field, (flag,), bool, False)
        elif shape is tuple:
            yield ChangeFlag(change, field, _both(flag), tuple[str, ...], (), _listed)
        elif shape is dict:
            parse = _weights if typing.get_args(hints[field])[1] is int else _values
            yield ChangeFlag(change, field, _both(flag), tuple[str, ...], (), parse)
        elif shape is str:
            names = (SHORT[field], flag) if field in SHORT else (flag,)
            yield ChangeFlag(change, field, names, str, "")
        else:
            yield ChangeFlag(change, field, (flag,), int | None, None)


def _both(flag: str) -> tuple[str, ...]:
    """'--avoid-zones' -> '--avoid-zone', which reads well where it is repeated, and itself."""
    singular = flag.removesuffix("es") if flag.endswith("classes") else flag.removesuffix("s")
    return tuple(dict.fromkeys((singular, flag)))


def _listed(values: tuple[str, ...]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _pairs(values: tuple[str, ...], example: str) -> Iterator[tuple[str, str]]:
    for part in _listed(values):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise Problem(f"write it as NAME=VALUE, such as {example}, not {part!r}")
        yield name, value


def _values(values: tuple[str, ...]) -> dict[str, list[str]]:
    """Node label -> values."""
    listed: dict[str, list[str]] = {}
    for label, value in _pairs(values, "--avoid-topology example.com/rack=r1"):
        listed.setdefault(label, []).append(value)
    return listed


def _weights(values: tuple[str, ...]) -> dict[str, int]:
    weights = {}
    for place, weight in _pairs(values, "--traffic-weight eu-west=90"):
        if not weight.isdecimal() or not weight.isascii():
            raise Problem(f"--traffic-weight: the weight of {place} must be a whole number, not {weight!r}")
        weights[place] = int(weight)
    return weights


FLAGS: tuple[ChangeFlag, ...] = tuple(_flags())

if TYPE_CHECKING:
    ChangeFlags = Any
else:
    # Made from the Struct, so that no change can be forgotten here.
    ChangeFlags = dataclasses.make_dataclass(
        "ChangeFlags",
        [
            (
                flag.field,
                Annotated[
                    flag.type,
                    Parameter(
                        name=flag.names, negative=(), help=CHANGES[flag.change].about, show_default=False
                    ),
                ],
                flag.default,
            )
            for flag in FLAGS
        ],
        frozen=True,
        namespace={"__module__": __name__},
    )

NO_CHANGES = ChangeFlags()


def changes_of(flags: ChangeFlags) -> dict[str, Any]:
    """`spec.changes` for the flags that were given. Raises Problem."""
    given = {flag: getattr(flags, flag.field) for flag in FLAGS}
    return {flag.change: flag.value(value) for flag, value in given.items() if value != flag.default}
