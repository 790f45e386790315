"""How many may be evicted, objects in and plan out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.making import NOW, at, meta, pod

from fathom.control.plan import NOTHING, Plan
from fathom.controllers.ages import SeenFor
from fathom.controllers.budget.plan import NEEDS, BudgetTrouble, look_again_s, plan_budget
from fathom.model.objects import Key, Obj


def budget(status: Obj | None = None, **spec: Any) -> Obj:
    return {"metadata": meta("web"), "spec": spec, "status": status or {}}


def planned(one: Obj, *pods: Obj, expected: int | BudgetTrouble = 4) -> Plan:
    return plan_budget(one, pods, lambda: expected, now=NOW)


def status(plan: Plan) -> Obj:
    (patch,) = plan.patches
    assert patch.subresource == "status"
    found: Obj = patch.patch["status"]
    return found


def pods(healthy: int, sick: int = 0) -> list[Obj]:
    return [pod(f"p{n}", ready=n < healthy) for n in range(healthy + sick)]


@pytest.mark.parametrize(
    ("spec", "expected", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 4, 2, 1),
        ({"minAvailable": "50%"}, 10, 5, 0),
        ({"minAvailable": "30%"}, 5, 2, 1),
        ({"maxUnavailable": 1}, 4, 3, 0),
        ({"maxUnavailable": "50%"}, 5, 2, 1),
        ({"minAvailable": 0}, 4, 0, 3),
    ],
)
def test_a_budget_allows_what_is_healthy_beyond_what_must_be(
    spec: Obj, expected: int, desired: int, allowed: int
) -> None:
    found = status(planned(budget(**spec), *pods(3, sick=1), expected=expected))
    by_scale = not isinstance(spec.get("minAvailable", 1), int) or "maxUnavailable" in spec
    assert {name: value for name, value in found.items() if name not in {"conditions", "disruptedPods"}} == {
        "currentHealthy": 3,
        "desiredHealthy": desired,
        "expectedPods": expected if by_scale else 4,
        "disruptionsAllowed": allowed,
        "observedGeneration": 1,
    }
    (condition,) = found["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        ("DisruptionAllowed", "True", "SufficientPods")
        if allowed
        else ("DisruptionAllowed", "False", "InsufficientPods")
    )


def test_a_budget_that_says_nothing_allows_nothing() -> None:
    found = status(planned(budget(), *pods(3)))
    assert (found["disruptionsAllowed"], found["desiredHealthy"], found["expectedPods"]) == (0, 0, 0)


def test_to_allow_more_the_view_must_be_fresh_and_to_allow_less_any_will_do() -> None:
    assert planned(budget(minAvailable=1), *pods(3)).needs == NEEDS
    full = budget({"disruptionsAllowed": 3, "observedGeneration": 1}, minAvailable=1)
    less = planned(full, *pods(2))
    assert (status(less)["disruptionsAllowed"], less.needs) == (1, ())


def test_an_evicted_pod_counts_as_gone_until_it_is_or_time_is_up() -> None:
    noted = {"disruptedPods": {"p0": at(-10), "p1": at(-500), "elsewhere": at(-1)}}
    one = budget(noted, minAvailable=1)
    found = status(planned(one, *pods(3)))
    assert (found["currentHealthy"], found["disruptionsAllowed"]) == (2, 1)
    assert found["disruptedPods"] == {"p0": at(-10), "p1": None, "elsewhere": None}
    assert look_again_s(one, pods(3), now=NOW) == 111.0


@pytest.mark.parametrize(
    ("noted_s", "seen_s", "left_s"),
    [
        (-10, 9.2, 110.0),  # Neither clock was set: as the note says.
        (-410, 10.0, 110.0),  # This process's clock was set forward, or that of the API server back.
        (390, 10.0, 110.0),  # The other way round.
        (-300, 0.0, 120.0),  # Noted before this process looked: it may be either.
        (-10, 121.0, None),
    ],
)
def test_an_eviction_counts_for_as_long_as_it_was_seen_whatever_clocks_say(
    noted_s: int, seen_s: float, left_s: float | None
) -> None:
    one = budget({"disruptedPods": {"p0": at(noted_s)}}, minAvailable=1)
    seen = {"p0": seen_s}
    found = status(plan_budget(one, pods(3), lambda: 4, now=NOW, seen_s=seen))
    assert found["disruptionsAllowed"] == (1 if left_s else 2)
    assert look_again_s(one, pods(3), now=NOW, seen_s=seen) == (left_s + 1.0 if left_s else None)


def test_a_note_is_seen_since_it_was_first_there() -> None:
    notes, key = SeenFor(), Key("default", "web")
    assert notes.seen_s(key, {"p0": at(-10)}, now_ns=5 * 10**9) == {"p0": 0.0}
    assert notes.seen_s(key, {"p0": at(-10), "p1": at(0)}, now_ns=7 * 10**9) == {"p0": 2.0, "p1": 0.0}
    assert notes.seen_s(key, {"p0": at(-1)}, now_ns=9 * 10**9) == {"p0": 0.0}
    assert notes.seen_s(key, {}, now_ns=9 * 10**9) == {}
    assert notes.seen_s(key, {"p0": at(-1)}, now_ns=10 * 10**9) == {"p0": 0.0}


def test_a_pod_that_is_going_is_not_healthy() -> None:
    found = status(planned(budget(minAvailable=1), pod("a"), pod("b", going=True)))
    assert found["currentHealthy"] == 1


def test_where_the_number_cannot_be_told_nothing_is_allowed() -> None:
    found = status(
        planned(
            budget({"disruptionsAllowed": 2}, maxUnavailable=1), *pods(3), expected=BudgetTrouble("nobody's")
        )
    )
    assert found["disruptionsAllowed"] == 0
    (condition,) = found["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "SyncFailed",
        "nobody's",
    )


def test_no_pods_at_all_allow_nothing() -> None:
    assert status(planned(budget(minAvailable=0)))["disruptionsAllowed"] == 0


def test_nothing_is_written_where_nothing_is_new() -> None:
    one = budget(minAvailable=1)
    written = {**one, "status": status(planned(one, *pods(3)))}
    assert planned(written, *pods(3)) == NOTHING
