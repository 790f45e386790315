"""The decision journal: what was decided is there before it is done, and what came of it joins it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from array import array
from pathlib import Path

import msgspec
import pytest

from fathom.model.cause import WakeCause
from fathom.model.decision import (
    Considered,
    Decision,
    KeptDecision,
    Outcome,
    RecordedVerdicts,
    Rejection,
    Roster,
    SeenVersions,
    Subject,
    VerdictColumn,
)
from fathom.record.journal import DiskJournal, WantedDecisions, node_reasons, read_journal

FULL = Decision(
    id="d-1",
    time_ns=10,
    controller="scheduler",
    subject=Subject("pods", "default", "web-1", "u-1", 3),
    verdict="bind",
    attempt=2,
    cause=WakeCause("event", "", "nodes", "", "a", 17, event="changed"),
    queued_ms=1.5,
    seen={"pods": SeenVersions(40, 12), "nodes": SeenVersions(38)},
    epoch=4,
    need="own-writes: met",
    actions=("bind web-1 to a",),
    policies=(Considered("spread", 7, decisive=True),),
    overrides=(Considered("avoid-zone"),),
    quotas=(Considered("team", 3),),
    filters={"Insufficient cpu": 4},
    rejected=(Rejection("NodeResourcesFit", "capacity", 4, "AddCapacity", "capacity"),),
    place=(2, 20),
    verdicts="shape-1/40",
    scores={"a": 90, "b": 80},
    observed_generation=3,
    condition="PodScheduled=True",
    message="fits best on a",
)


def decision(number: int, **changes: object) -> Decision:
    fields: dict[str, object] = {
        "id": f"d-{number}",
        "time_ns": number,
        "controller": "replicas",
        "subject": Subject("replicasets.apps", "default", f"web-{number}"),
        "verdict": "create",
    }
    return Decision(**{**fields, **changes})  # type: ignore[arg-type]  # the builder's own fields


def outcome(number: int, result: str = "committed", **changes: object) -> Outcome:
    return Outcome(id=f"d-{number}", time_ns=number + 1, result=result, **changes)  # type: ignore[arg-type]  # as above


def test_a_decision_reads_back_as_it_was_made_with_what_came_of_it(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path)
    journal.decided(FULL)
    assert read_journal(tmp_path) == [KeptDecision(FULL)]  # Before anything is sent, and while we write.
    journal.decided(decision(2))
    journal.concluded(outcome(1, "unknown"))
    journal.concluded(outcome(2, revision=41))
    journal.concluded(outcome(1, "settled", revision=42))
    journal.close()
    assert read_journal(tmp_path) == [
        KeptDecision(FULL, (outcome(1, "unknown"), outcome(1, "settled", revision=42))),
        KeptDecision(decision(2), (outcome(2, revision=41),)),
    ]
    assert (journal.written, journal.lost) == (5, 0)


def test_what_was_recorded_before_reasons_were_data_is_read_without_them() -> None:
    """As a journal of then has it: neither `rejected` nor `place`, and outcomes without `check`."""
    old = (
        b'{"id":"d-1","time_ns":10,"controller":"scheduler","subject":{"resource":"pods","namespace":"a",'
        b'"name":"web"},"verdict":"unschedulable","filters":{"Insufficient cpu":4},"nodes":4}'
    )
    decision = msgspec.json.decode(old, type=Decision)
    assert (decision.filters, decision.rejected, decision.place) == ({"Insufficient cpu": 4}, (), None)
    outcome = msgspec.json.decode(
        b'{"id":"d-1","time_ns":11,"result":"conflict","message":"NodeFull: no"}', type=Outcome
    )
    assert (outcome.message, outcome.check) == ("NodeFull: no", "")


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (WantedDecisions(), [1, 2, 3, 4]),
        (WantedDecisions(id="d-3"), [3]),
        (WantedDecisions(controller="scheduler"), [1]),
        (WantedDecisions(resource="replicasets.apps"), [2, 3, 4]),
        (WantedDecisions(namespace="default"), [1, 2, 3]),
        (WantedDecisions(namespace=""), [4]),
        (WantedDecisions(resource="pods", name="web-1"), [1]),
        (WantedDecisions(since_ns=3), [1, 3, 4]),
        (WantedDecisions(name="nothing"), []),
    ],
)
def test_decisions_are_chosen_by_object_controller_and_time(
    tmp_path: Path, wanted: WantedDecisions, numbers: list[int]
) -> None:
    journal = DiskJournal(tmp_path)
    journal.decided(FULL)
    for number in (2, 3):
        journal.decided(decision(number))
    journal.decided(decision(4, subject=Subject("replicasets.apps", "", "x")))
    for number in (1, 2, 3, 4):
        journal.concluded(outcome(number))
    journal.close()
    found = read_journal(tmp_path, wanted)
    assert [(kept.decision.id, kept.outcomes) for kept in found] == [
        (f"d-{number}", (outcome(number),)) for number in numbers
    ]


@pytest.mark.slow
def test_a_journal_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path, budget_bytes=128 * 1024)
    for number in range(3000):
        journal.decided(decision(number, message=os.urandom(100).hex()))
        journal.concluded(outcome(number))
    journal.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 128 * 1024
    numbers = [kept.decision.time_ns for kept in read_journal(tmp_path)]
    assert numbers == list(range(numbers[0], 3000))
    assert 150 < len(numbers) < 3000
    assert journal.lost == 0


def test_near_the_budget_detail_goes_first_where_nobody_will_ask_for_it(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path, budget_bytes=128 * 1024)
    journal.tabled(Roster(id="r", names=("a", "b")))
    journal.tabled(
        RecordedVerdicts(id="v", roster="r", reasons=("", "full"), codes=zlib.compress(bytes([1, 1])))
    )
    failed = decision(0, verdict="unschedulable", verdicts="v", filters={"full": 2})
    journal.decided(failed)
    for number in range(1, 900):
        journal.decided(decision(number, verdict="bind", node="a", message=os.urandom(100).hex()))
        journal.concluded(outcome(number))
    journal.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 128 * 1024
    first, *others = read_journal(tmp_path)
    assert first == KeptDecision(failed)
    assert node_reasons(tmp_path, failed) == {"a": "full", "b": "full"}
    assert others[0] == KeptDecision(decision(1, verdict="bind", node="a", brief=True), (outcome(1),))
    whole = [not kept.decision.brief for kept in others]
    assert whole == sorted(whole)  # What is brief is older than what is whole.
    assert whole[-1]


def test_what_no_json_can_hold_is_counted_and_stops_nothing(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path)
    journal.decided(decision(1, message="\ud800"))
    journal.decided(decision(2))
    journal.close()
    assert [kept.decision.id for kept in read_journal(tmp_path)] == ["d-2"]
    assert (journal.written, journal.lost) == (1, 1)


def test_a_directory_without_a_journal_has_no_decisions(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "nowhere") == []


WRITER = """
import sys
import zlib
from pathlib import Path
from tests.record.test_journal import decision, outcome
from fathom.record.journal import DiskJournal
journal = DiskJournal(Path(sys.argv[1]), budget_bytes=256 * 1024)
number = 0
while True:
    number += 1
    journal.decided(decision(number))
    print(number, flush=True)
    journal.concluded(outcome(number))
"""


@pytest.mark.live
def test_a_decision_that_was_acted_upon_outlives_a_kill(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent.parent
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    acted = 0
    for line in writer.stdout:
        acted = int(line)
        if acted > 3000:
            break
    writer.send_signal(signal.SIGKILL)
    acted = max(acted, *map(int, writer.stdout.read().split()), 0)
    writer.wait()
    kept = read_journal(tmp_path)
    numbers = [one.decision.time_ns for one in kept]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[-1] >= acted
    assert all(one.outcomes == (outcome(one.decision.time_ns),) for one in kept[:-1])
    again = DiskJournal(tmp_path, budget_bytes=256 * 1024)
    again.decided(decision(0))
    again.close()
    assert [one.decision.time_ns for one in read_journal(tmp_path)][-2:] == [numbers[-1], 0]


def test_every_nodes_reason_is_found_through_the_table_that_a_decision_names(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path)
    journal.tabled(Roster(id="r-1", names=("a", "b", "c", "", "d")))
    zones = array("i", [1, 1, 2, 0, 2]).tobytes()
    journal.tabled(VerdictColumn(id="c-1", domains=zlib.compress(zones)))
    journal.tabled(
        RecordedVerdicts(
            id="v-1",
            roster="r-1",
            reasons=("", "Taints", "Spread", "Resources"),
            codes=zlib.compress(bytes([0, 1, 0, 0, 0])),
            columns=("c-1",),
            by_domain=(zlib.compress(bytes([0, 0, 0])),),
        )
    )
    decision = msgspec.structs.replace(FULL, verdicts="v-1", differs=((0, 2, 3), (1, 2, 2)))
    journal.decided(decision)
    journal.close()
    assert [kept.decision for kept in read_journal(tmp_path)] == [decision]
    assert node_reasons(tmp_path, decision) == {"a": "", "b": "Taints", "c": "Resources", "d": "Spread"}
    assert node_reasons(tmp_path, msgspec.structs.replace(decision, verdicts="v-2")) is None


def test_a_cause_that_an_older_version_wrote_as_two_texts_is_read(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path)
    old = {**msgspec.to_builtins(FULL), "cause": "event", "cause_detail": "nodes/a at 17"}
    assert journal._ring.append(b"D" + msgspec.json.encode(old))
    journal.close()
    (kept,) = read_journal(tmp_path)
    assert kept.decision == msgspec.structs.replace(FULL, cause=WakeCause("event", "nodes/a at 17"))
