"""A schema may ask for multiples of nought; nobody can be refused for that."""

from __future__ import annotations

import pytest

from fathom.kube.definitions.schema_checks import _divides


@pytest.mark.parametrize(
    ("factor", "value", "divides"),
    [(0, 1, True), (0.0, 1.5, True), (2, 4, True), (2, 5, False), (0.5, 1.5, True), (5e-324, 1e308, True)],
)
def test_dividing_never_fails(factor: float, value: float, divides: bool) -> None:
    assert _divides(factor, value) is divides
