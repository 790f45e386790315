"""In the simulated cluster fights are named, a busy cluster is not; and an undeclared write is found."""

from __future__ import annotations

import pytest
from tests.sim.putting_back import in_a_child

from fathom.model.objects import Key
from fathom.model.user import User
from fathom.seams.seam import Ask
from fathom.sim.checkers.declared_writes import WritesAreDeclared
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.invariants import Seen
from fathom.sim.world.scenario import plan_of, sweep, tell


@pytest.mark.parametrize("seed", range(8))
def test_two_writers_are_named_whatever_field_and_period_they_have(seed: int) -> None:
    story = SCENARIOS["two-writers"]
    assert tell(story, plan_of(story, str(seed))).violation is None


@pytest.mark.parametrize("seed", range(8))
def test_actors_who_delete_and_create_in_turn_are_named_whatever_their_period(seed: int) -> None:
    story = SCENARIOS["deleted-and-created-in-turn"]
    assert tell(story, plan_of(story, str(seed))).violation is None


@pytest.mark.parametrize("seed", [0, 2, 11])
def test_a_fight_that_ends_while_its_server_is_down_is_not_reported_for_ever(seed: int) -> None:
    story = SCENARIOS["a-fight-ends-while-its-server-is-down"]
    assert tell(story, plan_of(story, str(seed))).violation is None


def test_an_autoscaler_that_oscillates_is_named() -> None:
    story = SCENARIOS["autoscaler-oscillates"]
    assert tell(story, plan_of(story, "1")).violation is None


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.full
def test_nothing_is_named_while_a_cluster_is_busy_but_well(seed: int) -> None:
    story = SCENARIOS["busy-but-well"]
    assert tell(story, plan_of(story, str(seed))).violation is None


def broken_by_a_writer(scenario: str) -> str:
    result = tell(SCENARIOS[scenario], plan_of(SCENARIOS[scenario], "0"))
    sweep()
    return "" if result.violation is None else result.violation.invariant


def test_a_controller_that_writes_what_it_does_not_declare_is_found() -> None:
    assert in_a_child("undeclared_writer", broken_by_a_writer, "rollouts") == WritesAreDeclared.name


def test_without_the_bug_every_write_of_the_same_run_is_declared() -> None:
    assert broken_by_a_writer("rollouts") == ""


def test_a_write_by_a_user_needs_no_declaration() -> None:

    class Person:
        user = User("alice")

    checker = WritesAreDeclared()
    checker._processes = {"driver": Person()}  # type: ignore[dict-item]
    change = Seen(
        resource="pods",
        key=Key("default", "web-1"),
        revision=3,
        old={"metadata": {"name": "web-1"}},
        new={"metadata": {"name": "web-1", "labels": {"mine": "true"}}},
        at_s=1.0,
        by="driver",
        incarnation=1,
        ask=Ask("PATCH", "/api/v1/namespaces/default/pods/web-1"),
    )
    assert checker.commit(change) is None
    ours = {"headers": (("fathom-actor", "controllers/replicasets"),)}
    named = Seen(**{field: getattr(change, field) for field in change.__struct_fields__} | ours)
    assert checker.commit(named) == (
        "controllers/replicasets wrote pods/default/web-1: metadata.labels[mine] is not declared"
    )
