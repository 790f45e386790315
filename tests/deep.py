"""Parameters of which some are tried in every run, and all in the deep one: the others are alike, or slow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def first_few(values: Iterable[Any], count: int) -> list[Any]:
    """The first `count` in every run."""
    return [_param(value, deep=at >= count) for at, value in enumerate(values)]


def all_but(values: Iterable[Any], deep: Collection[Any]) -> list[Any]:
    """Those of `deep` in the deep run only."""
    return [_param(value, deep=value in deep) for value in values]


def _param(value: Any, *, deep: bool) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=[pytest.mark.full] if deep else [])
