"""The checker of records finds each false claim of a record, and nothing wrong with a true one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.control.worlds import violation_of

from fathom.model.cause import WakeCause
from fathom.model.decision import Considered, Decision, Outcome, SeenVersions, Subject
from fathom.model.objects import metadata
from fathom.seams.process import Inside
from fathom.sim.checkers.records import RecordsAreTrue
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.world.world import World

Records = tuple[Decision, Outcome]
Change = Callable[[Decision, Outcome], Records]


def found_in(change: Change) -> str:
    """What is found wrong with the records of a process; '' if nothing is."""

    async def story(world: World) -> None:
        await world.apply(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"n": "1"}})
        obj = await world.apply(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"n": "2"}})
        uid, revision = metadata(obj)["uid"], int(metadata(obj)["resourceVersion"])
        subject = Subject("configmaps", "default", "m", uid)
        decision = Decision(
            id="d",
            time_ns=1,
            controller="c",
            subject=subject,
            verdict="patch",
            cause=WakeCause("event", "changed", "configmaps", "default", "m", revision),
            seen={"ConfigMap": SeenVersions(revision - 1, applied=revision)},
            policies=(
                Considered("m", revision, resource="configmaps", namespace="default", uid=uid),
                Considered("builtin"),
            ),
        )
        outcome = Outcome(id="d", time_ns=2, result="committed", revision=revision, object=subject)
        recorded = change(decision, outcome)

        def entry(inside: Inside) -> None:
            inside.journal.decided(recorded[0])
            inside.journal.concluded(recorded[1])

        world.process("writer", entry)
        await world.sleep(1)

    violation = violation_of(story, checkers=[RecordsAreTrue()])
    return "" if violation is None else f"{violation.invariant}: {violation.message}"


def decision_with(**changes: object) -> Change:
    return lambda decision, outcome: (msgspec.structs.replace(decision, **changes), outcome)


def outcome_with(**changes: object) -> Change:
    return lambda decision, outcome: (decision, msgspec.structs.replace(outcome, **changes))


def considered_with(**changes: object) -> Change:
    def change(decision: Decision, outcome: Outcome) -> Records:
        considered = msgspec.structs.replace(decision.policies[0], **changes)
        return msgspec.structs.replace(decision, policies=(considered,)), outcome

    return change


def test_true_records_are_let_pass() -> None:
    assert found_in(lambda decision, outcome: (decision, outcome)) == ""
    assert found_in(outcome_with(object=Subject("configmaps", "", "default"))) == "", "a collection"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (decision_with(seen={"Pod": SeenVersions(10**6)}), "it saw Pod at 1000000, but the store is at"),
        (decision_with(seen={"Pod": SeenVersions(5, applied=4)}), "Pod is complete up to 5, but applied"),
        (decision_with(seen={"ConfigMap": SeenVersions(1)}), "the view did not have it as uid"),
        (decision_with(subject=Subject("configmaps", "default", "m", "other")), "the view did not have it"),
        (considered_with(revision=1), "which the store never had"),
        (considered_with(uid="other"), "which the store never had"),
        (considered_with(generation=4), "which the store never had"),
        (considered_with(resource="", name="gone"), "which the store never had"),
        (decision_with(cause=WakeCause("event", "", "configmaps", "default", "m", 1)), "that never happened"),
        (outcome_with(id="another"), "is of no recorded decision"),
        (outcome_with(object=None), "it names no object"),
        (outcome_with(revision=0), "it names no revision"),
        (outcome_with(revision=1), "the store never had configmaps/default/m"),
        (outcome_with(object=Subject("configmaps", "default", "m")), "the store never had"),
    ],
)
def test_a_false_record_is_found(change: Change, wrong: str) -> None:
    found = found_in(change)
    assert found.startswith("a decision's records are true: writer: ")
    assert wrong in found


def test_an_object_that_changed_again_before_the_view_was_complete_was_not_in_it() -> None:
    """The view has every change up to its revision: the object is not there as it was before."""

    def older(decision: Decision, outcome: Outcome) -> Records:
        newest = decision.policies[0].revision
        seen = {"ConfigMap": SeenVersions(newest)}
        considered = msgspec.structs.replace(decision.policies[0], revision=newest - 1)
        return msgspec.structs.replace(decision, seen=seen, policies=(considered,)), outcome

    assert "which was not in its view" in found_in(older)
