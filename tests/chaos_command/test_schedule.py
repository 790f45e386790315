"""What goes wrong follows from the seed alone."""

from __future__ import annotations

import msgspec
import pytest

from fathom.chaos.schedule import (
    FAULTS,
    LONGEST_S,
    NOT_LIVE,
    OPERATOR,
    SERVER,
    WINDOW_S,
    Schedule,
    Step,
    calm,
    schedule,
)
from fathom.sim.world.faults import LoseReply, Partition, Refuse, SlowReply, SlowRequest

SEEDS = range(300)


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    assert schedule(7, documents=2) == schedule(7, documents=2)
    assert len({schedule(seed, documents=2) for seed in SEEDS}) == len(SEEDS)


def test_a_schedule_is_the_same_after_it_was_written_to_a_report() -> None:
    planned = schedule(7, documents=2)
    assert msgspec.json.decode(msgspec.json.encode(planned), type=Schedule) == planned


def test_a_run_without_faults_applies_every_document_at_once() -> None:
    assert calm(2) == Schedule((Step(0.0, "apply", 0), Step(0.0, "apply", 1)), (), ())


def test_over_many_seeds_every_kind_of_fault_is_planned_and_none_that_only_a_simulator_can_do() -> None:
    kinds = {fault.kind for seed in SEEDS for fault in schedule(seed, documents=1).faults}
    assert kinds == set(FAULTS)
    assert kinds.isdisjoint(NOT_LIVE)


def test_faults_are_about_the_program_or_its_server_and_end_soon() -> None:
    for fault in (fault for seed in SEEDS for fault in schedule(seed, documents=1).faults):
        assert fault.target in {OPERATOR, SERVER, "*"}
        assert 0 <= fault.at_s < WINDOW_S
        assert fault.for_s <= LONGEST_S
        if isinstance(fault, SlowRequest | SlowReply):
            assert fault.delay_s <= LONGEST_S


def test_no_create_and_no_read_is_answered_with_a_conflict() -> None:
    """A 409 to a create means that the object exists: an operator may take it for success."""
    faults = [fault for seed in SEEDS for fault in schedule(seed, documents=1).faults]
    conflicts = [fault for fault in faults if isinstance(fault, Refuse) and fault.status == 409]
    assert {fault.match for fault in conflicts} == {"PUT ", "PATCH ", "DELETE "}


@pytest.mark.parametrize("kind", ["lose-reply", "partition"])
def test_only_the_faults_that_were_asked_for_are_planned(kind: str) -> None:
    faults = [fault for seed in SEEDS for fault in schedule(seed, documents=1, only=[kind]).faults]
    assert {type(fault) for fault in faults} == {{"lose-reply": LoseReply, "partition": Partition}[kind]}


def test_every_document_is_applied_in_the_order_of_the_files() -> None:
    for seed in SEEDS:
        steps = schedule(seed, documents=3).steps
        assert [step.document for step in steps if step.action == "apply"] == [0, 1, 2]
        assert list(steps) == sorted(steps, key=lambda step: step.at_s)


def test_without_documents_nobody_does_anything() -> None:
    assert {schedule(seed, documents=0).steps for seed in SEEDS} == {()}
