"""Quantities against fractions, and against strings that Kubernetes prints."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.model.quantity import BINARY, DECIMAL, EXPONENT, Quantity, canonical, of_milli, of_value, parse

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "e3": Fraction(1000),
    "E-6": Fraction(1, 10**6),
    "e+2": Fraction(100),
}

numbers = st.builds(
    lambda sign, whole, fraction: (f"{sign}{whole}{fraction}", Fraction(f"{sign}{whole}{fraction}")),
    st.sampled_from(["", "-", "+"]),
    st.integers(min_value=0, max_value=10**9).map(str),
    st.one_of(st.just(""), st.integers(min_value=0, max_value=10**6).map(lambda n: f".{n}")),
)
written = st.builds(
    lambda number, suffix: (number[0] + suffix, number[1] * SUFFIXES[suffix]),
    numbers,
    st.sampled_from(sorted(SUFFIXES)),
)


def to_nano(exact: Fraction) -> int:
    """Rounded away from zero."""
    nano = exact * 10**9
    return -(-nano.numerator // nano.denominator) if nano >= 0 else nano.numerator // nano.denominator


@given(written)
def test_parsing_agrees_with_fractions(case: tuple[str, Fraction]) -> None:
    text, exact = case
    assert parse(text).nano == to_nano(exact)


@given(written, written)
def test_ordering_and_sums_agree_with_fractions(
    one: tuple[str, Fraction], other: tuple[str, Fraction]
) -> None:
    left, right = parse(one[0]), parse(other[0])
    a, b = to_nano(one[1]), to_nano(other[1])
    assert (left < right, left == right, left >= right) == (a < b, a == b, a >= b)
    assert ((left + right).nano, (left - right).nano) == (a + b, a - b)


@given(written)
def test_the_canonical_form_is_read_back_as_the_same_amount_and_stays(case: tuple[str, Fraction]) -> None:
    quantity = parse(case[0])
    assert parse(str(quantity)) == quantity
    assert canonical(str(quantity)) == str(quantity)


@given(st.integers(min_value=-(10**30), max_value=10**30), st.sampled_from([DECIMAL, BINARY, EXPONENT]))
def test_any_amount_survives_being_printed(nano: int, notation: str) -> None:
    text = str(Quantity(nano, notation))
    capped = notation == BINARY and text.endswith("i") and abs(nano) > (2**63 - 1) * 10**9
    assert capped or parse(text).nano == nano


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.", "1"),
        ("+7", "7"),
        ("-250m", "-250m"),
        ("1000", "1k"),
        ("1k", "1k"),
        ("1500", "1500"),
        ("123456000", "123456k"),
        ("1Gi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1023Ki", "1023Ki"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1.1Ki", "1126400m"),
        ("2e3", "2e3"),
        ("1e4", "10e3"),
        ("12E6", "12e6"),
        ("5e-1", "500e-3"),
        ("3E", "3E"),
        ("1E3", "1e3"),
        ("0.0000000001", "1n"),
        ("1e-500", "1e-9"),
        ("9Ei", "9223372036854775807"),
        (1, "1"),
        (0.5, "500m"),
    ],
)
def test_quantities_are_printed_as_kubernetes_prints_them(text: str | int | float, printed: str) -> None:
    assert canonical(text) == printed


@pytest.mark.parametrize(
    "text", ["", " ", "-", "m", "aoeu", "1.2.3", "1 Gi", "0x10", "1g", "٣", "1\n", "NaN"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["1i", "0.1mi", ".5i", "1kk", "-3.01e-", "1ee3", "1e501", "1e9999999999999", "1e"]
)
def test_an_unknown_suffix_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        parse(text)


def test_a_number_of_thousands_of_digits_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unable to parse numeric part of quantity"):
        parse("9" * 100_000)


def test_rounding_goes_up_and_away_from_zero() -> None:
    assert [parse("1n").milli, parse("1500u").milli, parse("-1500u").milli] == [1, 2, -2]
    assert [parse("1m").value, parse("1999m").value, parse("-1m").value] == [1, 2, -1]
    assert str(parse("1500u").rounded_to_milli()) == "2m"


def test_amounts_can_be_made_from_integers() -> None:
    assert (str(of_milli(1500)), str(of_value(2**30, BINARY)), str(of_value(7))) == ("1500m", "1Gi", "7")


def test_a_sum_takes_the_notation_of_what_is_not_zero() -> None:
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("1Gi") + parse("1k")) == "1073742824"
    assert not parse("1Gi") - parse("1024Mi")


def test_equal_amounts_are_one_key() -> None:
    assert {parse("1"): "a"}[parse("1000m")] == "a"
    assert parse("1") != "1"
