"""The journal's index: it finds what a full scan finds, and is never needed to find it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from tests.deep import first_few

from fathom.model.decision import (
    Decision,
    KeptDecision,
    Outcome,
    RecordedVerdicts,
    Roster,
    Subject,
)
from fathom.model.record_query import NodeRejections, ObjectRef, RecordQuery, is_about
from fathom.record.journal import DiskJournal, node_rejections, read_journal
from fathom.record.journal_reader import JournalReader
from fathom.record.segment import packed, segments

SECOND_NS = 1_000_000_000
NAMESPACES, RESOURCES = ("a", "b", ""), ("pods", "replicasets.apps")


def write(journal: DiskJournal, rng: random.Random, count: int, start: int = 0) -> None:
    """Decisions about few objects, some evicting, most with outcomes: at once, late or twice."""
    unanswered: list[str] = []
    for number in range(start, start + count):
        id_ = f"{rng.choice('xy')}-{number:x}"
        journal.decided(_decision(id_, number, rng))
        unanswered.append(id_)
        while unanswered and rng.random() < 0.6:
            journal.concluded(_outcome(unanswered.pop(rng.randrange(len(unanswered))), rng))


def _decision(id_: str, number: int, rng: random.Random) -> Decision:
    victims = tuple(
        f"{rng.choice('ab')}/web-{rng.randrange(8)}: low" for _ in range(rng.choice((0, 0, 0, 2)))
    )
    return Decision(
        id=id_,
        time_ns=number * SECOND_NS // 3,
        controller="scheduler",
        subject=Subject(
            rng.choice(RESOURCES), rng.choice(NAMESPACES), f"web-{rng.randrange(8)}", f"u-{rng.randrange(3)}"
        ),
        verdict=rng.choice(("bind", "unschedulable")),
        victims=victims,
        message=rng.randbytes(rng.randrange(120)).hex(),
    )


def _outcome(id_: str, rng: random.Random) -> Outcome:
    target = Subject("pods", rng.choice("ab"), f"web-{rng.randrange(8)}", f"u-{rng.randrange(3)}")
    return Outcome(
        id=id_,
        time_ns=0,
        result="committed",
        revision=rng.randrange(2000),
        object=target if rng.random() < 0.3 else None,
    )


def query(rng: random.Random, count: int) -> RecordQuery:
    refs = tuple(
        ObjectRef(
            rng.choice(RESOURCES),
            rng.choice(NAMESPACES),
            f"web-{rng.randrange(9)}",
            rng.choice(("", "", "u-1")),
        )
        for _ in range(rng.randrange(3))
    )
    since_ns = rng.choice((0, 0, rng.randrange(count) * SECOND_NS // 3))
    return RecordQuery(
        objects=refs,
        decisions=tuple(f"x-{rng.randrange(count):x}" for _ in range(rng.choice((0, 0, 3)))),
        revisions=tuple(rng.randrange(2000) for _ in range(rng.choice((0, 0, 2)))),
        since_ns=since_ns,
        until_ns=rng.choice((0, 0, since_ns + 20 * SECOND_NS)),
        newest=rng.choice((1, 7, 200)),
        namespace=rng.choice((None, "a", "")),
    )


def scanned(kept: list[KeptDecision], wanted: RecordQuery) -> list[KeptDecision]:
    """The answer by looking at every decision."""

    def last(chosen: Iterable[KeptDecision]) -> list[str]:
        return [record.decision.id for record in chosen][-wanted.newest :]

    in_time = [record for record in kept if wanted.in_time(record.decision)]
    ids = set(wanted.decisions)
    ids |= {r.decision.id for r in kept if any(o.revision in wanted.revisions for o in r.outcomes)}
    for ref in wanted.objects:
        ids.update(last(record for record in in_time if is_about(record, ref)))
    if wanted.is_for_all:
        namespaces = {record.decision.subject.namespace for record in kept}
        allowed = namespaces if wanted.namespace is None else {wanted.namespace}
        ids.update(last(record for record in in_time if record.decision.subject.namespace in allowed))
    return [record for record in kept if record.decision.id in ids]


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_few(range(6), 3))
def test_the_index_finds_what_a_full_scan_finds(tmp_path: Path, seed: int) -> None:
    """While the journal is written, with segments open, packed, thinned and dropped."""
    rng = random.Random(seed)
    journal = DiskJournal(tmp_path, budget_bytes=rng.choice((200, 600, 5000)) * 1024)
    reader, written = JournalReader(tmp_path), 0
    for _ in range(5):
        write(journal, rng, 300, written)
        written += 300
        reader.index_some()
        reader.query(query(rng, written))  # While segments are packed and thinned.
        journal._ring._settle(wait_for_all=True)
        for _ in range(12):
            wanted = query(rng, written)
            assert reader.query(wanted) == scanned(read_journal(tmp_path), wanted), wanted
    journal.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= journal._ring.budget_bytes
    kept = read_journal(tmp_path)
    for fresh in (reader, JournalReader(tmp_path)):
        for _ in range(30):
            wanted = query(rng, written)
            assert fresh.query(wanted) == scanned(kept, wanted), wanted


def test_what_was_indexed_ahead_is_not_indexed_again_by_a_query(tmp_path: Path) -> None:
    journal = DiskJournal(tmp_path, budget_bytes=32 << 20)
    write(journal, random.Random(3), 3000)
    reader = JournalReader(tmp_path)
    assert reader.index_some()
    while reader.index_some():
        pass
    (segment,) = reader._segments.values()
    columns = segment.columns
    assert len(columns.decisions) == 3000
    wanted = query(random.Random(4), 3000)
    assert reader.query(wanted) == scanned(read_journal(tmp_path), wanted)
    assert segment.columns is columns
    journal.close()


def sealed(directory: Path, count: int = 900) -> list[KeptDecision]:
    """A journal of several packed segments."""
    journal = DiskJournal(directory, budget_bytes=512 * 1024)
    journal.tabled(Roster(id="r", names=("n1", "n2")))
    codes = zlib.compress(bytes([0, 1]))
    journal.tabled(RecordedVerdicts(id="v", roster="r", reasons=("", "full"), codes=codes))
    journal.decided(
        Decision(
            id="first",
            time_ns=1,
            controller="s",
            subject=Subject("pods", "a", "web-1"),
            verdict="bind",
            verdicts="v",
        )
    )
    write(journal, random.Random(1), count)
    journal.close()
    assert len(list(directory.glob("*.index"))) == len(list(directory.glob("*.seg"))) > 3
    return read_journal(directory)


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _swap_with_another(path: Path) -> None:
    path.write_bytes(max(path.parent.glob("*.index")).read_bytes())


@pytest.mark.parametrize(
    "damage", [Path.unlink, _truncate, _flip_a_bit, _swap_with_another, lambda path: path.write_bytes(b"")]
)
def test_a_damaged_or_missing_index_changes_no_answer_and_is_made_again(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    kept = sealed(tmp_path)
    good = {path: path.read_bytes() for path in tmp_path.glob("*.index")}
    for path in sorted(good)[:-1]:
        damage(path)
    rng, reader = random.Random(5), JournalReader(tmp_path)
    for _ in range(20):
        wanted = query(rng, 900)
        assert reader.query(wanted) == scanned(kept, wanted)
    rejections = reader.node_rejections(kept[0].decision)
    assert rejections == NodeRejections({"n1": "", "n2": "full"}, {"full": "full"})
    DiskJournal(tmp_path, budget_bytes=512 * 1024).close()
    assert {path: path.read_bytes() for path in good} == good


def test_a_damaged_segment_loses_its_own_records_and_no_others(tmp_path: Path) -> None:
    kept = sealed(tmp_path)
    victim = sorted(tmp_path.glob("*.seg"))[1]
    content = bytearray(victim.read_bytes())
    content[100:160] = os.urandom(60)
    victim.write_bytes(content)
    ids = {record.decision.id for record in JournalReader(tmp_path).query(RecordQuery(newest=1000))}
    assert 0 < len(ids) < len(kept)
    assert ids <= {record.decision.id for record in kept}


def test_reasons_of_nodes_are_found_by_the_table_that_a_decision_names(tmp_path: Path) -> None:
    kept = sealed(tmp_path)
    reader = JournalReader(tmp_path)
    assert kept[0].decision.id == "first"
    assert reader.node_rejections(kept[0].decision) == node_rejections(tmp_path, kept[0].decision)
    assert reader.node_rejections(kept[1].decision) is None


def test_an_index_without_its_segment_is_removed_at_the_next_start(tmp_path: Path) -> None:
    sealed(tmp_path)
    orphan = min(tmp_path.glob("*.seg"))
    orphan.unlink()
    (tmp_path / "00000001-000000.indexing").write_bytes(b"half")
    DiskJournal(tmp_path, budget_bytes=512 * 1024).close()
    assert not orphan.with_suffix(".index").exists()
    assert not list(tmp_path.glob("*.indexing"))


def test_a_journal_of_an_older_version_is_read_without_parts(tmp_path: Path) -> None:
    """Packed as one stream, and without an index."""
    kept = sealed(tmp_path)
    for path in tmp_path.glob("*.seg"):
        (segment,) = segments(path)
        path.write_bytes(packed(segment))
        path.with_suffix(".index").unlink()
    rng, reader = random.Random(6), JournalReader(tmp_path)
    for _ in range(20):
        wanted = query(rng, 900)
        assert reader.query(wanted) == scanned(kept, wanted)


WRITER = """
import random, sys
from pathlib import Path
from tests.record.test_journal_reader import write
from fathom.record.journal import DiskJournal
journal = DiskJournal(Path(sys.argv[1]), budget_bytes=2 << 20)
rng, number = random.Random(int(sys.argv[2])), 0
while True:
    write(journal, rng, 100, number)
    number += 100
    print(number, flush=True)
"""


@pytest.mark.live
@pytest.mark.parametrize("until", [700, 2500, 5100])
def test_a_journal_killed_in_the_middle_answers_as_a_full_scan_does(tmp_path: Path, until: int) -> None:
    root = Path(__file__).parent.parent.parent
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), str(until)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    reader, rng, written = JournalReader(tmp_path), random.Random(until), 0
    for line in writer.stdout:
        written = int(line)
        reader.query(query(rng, written))  # While it is written: it must not fail.
        if written >= until:
            break
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    kept = read_journal(tmp_path)
    assert kept
    for fresh in (reader, JournalReader(tmp_path)):
        for _ in range(20):
            wanted = query(rng, written)
            assert fresh.query(wanted) == scanned(kept, wanted), wanted
    DiskJournal(tmp_path, budget_bytes=2 << 20).close()
    assert {path.stem for path in tmp_path.glob("*.index")} == {path.stem for path in tmp_path.glob("*.seg")}
    assert JournalReader(tmp_path).query(RecordQuery(newest=100_000)) == read_journal(tmp_path)


def test_a_segment_killed_before_its_header_was_written_is_removed(tmp_path: Path) -> None:
    with closing(DiskJournal(tmp_path, budget_bytes=2 << 20)) as journal:
        write(journal, random.Random(8), 100, 0)
    blank, foreign = tmp_path / "00000002-000000.seg", tmp_path / "00000003-000000.seg"
    blank.write_bytes(bytes(1 << 18))
    foreign.write_bytes(b"of another version".ljust(1 << 18, b"\0"))
    kept = read_journal(tmp_path)
    DiskJournal(tmp_path, budget_bytes=2 << 20).close()
    assert not blank.exists()
    assert foreign.exists()
    assert len(kept) == 100
    assert read_journal(tmp_path) == kept
