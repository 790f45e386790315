"""Kubernetes quantities: '100m', '1.5Gi', '2e3'. Exact: a quantity is a whole number of nanos (10^-9), the
finest step Kubernetes knows. Finer amounts are rounded up: a request for something is never zero.

Three notations, and a quantity remembers its own: decimal suffixes (n u m k M G T P E), binary ones (Ki to
Ei) and exponents (e3). The canonical form has no fraction and the largest suffix that loses nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache, total_ordering
from typing import Final

DECIMAL: Final = "DecimalSI"
BINARY: Final = "BinarySI"
EXPONENT: Final = "DecimalExponent"

NANO_PER_MILLI = 10**6
NANO_PER_ONE = 10**9

_WRONG_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX = "unable to parse quantity's suffix"
_WRONG_NUMBER = "unable to parse numeric part of quantity"

# Possessive: else three adjacent runs of digits could be divided in very many ways before a refusal.
_split = re.compile(r"([+-]?)([0-9]*+)(\.?+)([0-9]*+)([eEinumkKMGTP]*+[-+]?+[0-9]*+)").fullmatch
# No amount needs so many digits, and arithmetic with thousands of them takes milliseconds.
CHARS_MAX: Final = 512

_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES = {0: "", **{exponent: suffix for suffix, exponent in _BINARY_EXPONENTS.items()}}

# Kubernetes caps binary quantities at the largest int64.
_BINARY_NANO_MAX = (2**63 - 1) * NANO_PER_ONE
# Far above any real amount, and small enough that no client can make us compute 10 to the billion.
_EXPONENT_MAX = 500


@total_ordering
class Quantity:
    """Immutable. Compares by amount, whatever the notation."""

    __slots__ = ("nano", "notation")

    def __init__(self, nano: int, notation: str = DECIMAL) -> None:
        self.nano = nano
        self.notation = notation

    @property
    def milli(self) -> int:
        """In thousandths, rounded up (away from zero)."""
        return _divided_up(self.nano, NANO_PER_MILLI)

    @property
    def value(self) -> int:
        """In whole units, rounded up (away from zero)."""
        return _divided_up(self.nano, NANO_PER_ONE)

    @property
    def is_whole(self) -> bool:
        return self.nano % NANO_PER_ONE == 0

    def rounded_to_milli(self) -> Quantity:
        return Quantity(self.milli * NANO_PER_MILLI, self.notation)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.notation if self.nano else other.notation)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.notation if self.nano else other.notation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        """The canonical form, as Kubernetes prints it."""
        if self.nano == 0:
            return "0"
        if self.notation == BINARY and self.is_whole and abs(self.nano) >= 1024 * NANO_PER_ONE:
            return _binary(self.nano // NANO_PER_ONE)
        return _decimal(self.nano, exponents=self.notation == EXPONENT)

    def __repr__(self) -> str:
        return f"Quantity({self})"


ZERO = Quantity(0)


def _divided_up(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano >= 0 else nano // unit


def _binary(whole: int) -> str:
    exponent = 0
    while whole % 1024 == 0 and exponent < 60:
        whole //= 1024
        exponent += 10
    return f"{whole}{_BINARY_SUFFIXES[exponent]}"


def _decimal(nano: int, *, exponents: bool) -> str:
    exponent = -9
    while nano % 1000 == 0 and (exponents or exponent < 18):
        nano //= 1000
        exponent += 3
    if exponents:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIXES[exponent]}"


def of_milli(milli: int, notation: str = DECIMAL) -> Quantity:
    return Quantity(milli * NANO_PER_MILLI, notation)


def of_value(value: int, notation: str = DECIMAL) -> Quantity:
    return Quantity(value * NANO_PER_ONE, notation)


def parse(text: str | int | float) -> Quantity:
    """Parse a quantity; JSON clients also send bare numbers. Raises ValueError, worded as in Kubernetes."""
    text = text if isinstance(text, str) else str(text)
    if len(text) > CHARS_MAX:  # Checked here, so that the memo holds no long text either.
        raise ValueError(f"{_WRONG_NUMBER}: more than {CHARS_MAX} characters")
    return _parsed(text)


# A memo of a pure function: the same few strings are parsed over and over, and no answer depends on it.
@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    match = _split(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(_WRONG_FORM)
    sign, whole, _, fraction, suffix = match.groups()
    base_nano, divisor, notation = _scale(suffix)
    try:
        digits = int(whole + fraction or "0")
    except ValueError:  # More digits than Python's own limit for parsing integers.
        raise ValueError(_WRONG_NUMBER) from None
    nano = -(-digits * base_nano // (divisor * 10 ** len(fraction)))
    if notation == BINARY:
        nano = min(nano, _BINARY_NANO_MAX)
        notation = DECIMAL if 0 < nano < NANO_PER_ONE else BINARY
    return Quantity(-nano if sign == "-" else nano, notation)


def _scale(suffix: str) -> tuple[int, int, str]:
    """One unit of the suffix in nanos, as numerator and divisor; and its notation."""
    if suffix in _DECIMAL_EXPONENTS:
        return 10 ** (_DECIMAL_EXPONENTS[suffix] + 9), 1, DECIMAL
    if suffix in _BINARY_EXPONENTS:
        return NANO_PER_ONE << _BINARY_EXPONENTS[suffix], 1, BINARY
    if suffix[0] not in "eE" or not suffix[1:].lstrip("+-").isdecimal():
        raise ValueError(_WRONG_SUFFIX)
    exponent = int(suffix[1:]) if len(suffix) < 10 else _EXPONENT_MAX + 1
    if abs(exponent) > _EXPONENT_MAX:
        raise ValueError(_WRONG_SUFFIX)
    shifted = exponent + 9
    return (10**shifted, 1, EXPONENT) if shifted >= 0 else (1, 10**-shifted, EXPONENT)


def canonical(text: str | int | float) -> str:
    return str(parse(text))
