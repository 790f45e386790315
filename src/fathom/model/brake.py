"""The limits of the brake on node actions, in the ConfigMap `fathom-system/node-brake`. The server refuses
values that cannot be parsed; `controllers/node_health/brake.py` applies the limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fathom.model.objects import Key

BRAKE = Key("fathom-system", "node-brake")
SHOWN = Key("fathom-system", "node-brake-status")  # The limits in force, and what the brake holds back.

DIGITS_MAX = 9  # No cluster has more nodes than that.


class BrakeLimits(msgspec.Struct, frozen=True):
    share_percent: int = 55  # Of a zone's nodes; kube-controller-manager's unhealthy-zone-threshold.
    small_zone: int = 2  # In zones of at most so many nodes the share does not apply.
    flips_per_minute: int = 20  # Nodes whose pods are taken out of service, per zone.
    evictions_per_minute: int = 6  # Nodes whose pods are replaced, per zone; 0.1/s as in Kubernetes.
    global_factor: int = 3  # All zones together: so many times the limit of one.
    engaged: bool = False  # Set by hand: no node action at all.


_FIELDS = {field.name: field for field in msgspec.structs.fields(BrakeLimits)}
NAMES = tuple(_FIELDS)


def limits_of(data: Mapping[str, str]) -> tuple[BrakeLimits, str]:
    """The limits in a ConfigMap, and a message. A value that cannot be parsed leaves its default in force,
    and is named in the message."""
    parsed = {
        name: value for name in NAMES if name in data and (value := _read(name, data[name])) is not None
    }
    wrong = "; ".join(message for _, message in wrong_limits(data))
    return BrakeLimits(**parsed), wrong  # type: ignore[arg-type]  # Typed by the fields themselves.


def wrong_limits(data: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Unknown keys, and keys whose values cannot be parsed, each with what is wrong."""
    for name in sorted(set(data) - set(NAMES)):
        yield name, f"{name} is not a limit of the brake"
    for name in NAMES:
        if name in data and _read(name, data[name]) is None:
            number = f"a whole number of at most {DIGITS_MAX} digits"
            wanted = "true or false" if _FIELDS[name].type is bool else number
            yield name, f"{name}={data[name]!r} must be {wanted}"


def shown_limits(limits: BrakeLimits) -> dict[str, str]:
    """The limits in the form of the ConfigMap's data."""
    return {name: str(getattr(limits, name)).lower() for name in NAMES}


def _read(name: str, text: str) -> int | bool | None:
    if _FIELDS[name].type is bool:
        return {"true": True, "false": False}.get(text.lower())
    is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    return int(text) if is_number else None
