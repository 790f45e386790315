"""The scheduler's options: what it is called, and which lease it holds."""

from __future__ import annotations

import pytest

from fathom.cli.cluster.scheduler import NAMES, lease_of, who_is
from fathom.cli.problem import Problem


@pytest.mark.parametrize(
    ("names", "part", "given", "expected"),
    [
        (NAMES, (0, 1), None, "fathom-system/scheduler"),
        (NAMES, (1, 2), None, "fathom-system/scheduler-1of2"),
        (("second",), (0, 1), None, "fathom-system/scheduler-second"),
        (("second",), (0, 1), "", ""),
        (("second",), (0, 2), "", ""),
        (("second",), (0, 1), "infra/mine", "infra/mine"),
        (("second",), (0, 2), "infra/mine", "infra/mine-0of2"),
    ],
)
def test_schedulers_of_other_pods_do_not_stand_by_for_one_another(
    names: tuple[str, ...], part: tuple[int, int], given: str | None, expected: str
) -> None:
    assert lease_of(given, who_is(names, part), part) == expected


def test_a_lease_without_a_namespace_is_refused() -> None:
    with pytest.raises(Problem, match="NAMESPACE/NAME"):
        lease_of("mine", "scheduler", (0, 1))
