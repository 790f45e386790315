"""Timelines made from a run's records, compared with what happened in it."""

from __future__ import annotations

import pytest

from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline.answer import answer
from fathom.explain.timeline.timeline import Timeline, TimelineSpec
from fathom.explain.timeline.writes import Writes
from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision
from fathom.model.times import moment_ns
from fathom.sim.checkers.timelines import FOUND_MIN, ComparedEdges, compare_all
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.report.live_records import LiveRecords
from fathom.sim.report.object_timeline import ObjectTimelines
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.scenario import Telling, plan_of, sweep

RUNS = [
    (name, seed)
    for name in ("rollback-among-others", "quota-changes", "replicas", "names-are-used-again")
    for seed in ("1", "2", "3")
]


def chronicle_of(name: str, seed: str) -> Chronicle:
    chronicle = Chronicle()
    scenario = SCENARIOS[name]
    result = Telling(scenario, plan_of(scenario, seed), chronicle=chronicle).run()
    sweep()
    assert result.violation is None, result.violation
    return chronicle


def compared(chronicle: Chronicle) -> ComparedEdges:
    return compare_all(LiveRecords(chronicle), ObjectTimelines(chronicle))


@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_timelines_from_records_have_no_false_edge_and_few_are_missing(name: str, seed: str) -> None:
    edges = compared(chronicle_of(name, seed))
    assert edges.false == []
    assert edges.expected > 50
    assert len(edges.missing) <= (1 - FOUND_MIN) * edges.expected, edges.missing
    assert edges.recorded - edges.inferred > edges.inferred


def test_both_sources_make_the_same_type_with_the_same_ids() -> None:
    chronicle = chronicle_of("rollback-among-others", "1")
    live, true = LiveRecords(chronicle), ObjectTimelines(chronicle)
    subject = next(ref for ref in live.subjects() if ref.resource == "pods")
    from_records = answer(live.evidence(subject), TimelineSpec(fold=False))
    from_chronicle = true.timeline(subject)
    assert isinstance(from_chronicle, Timeline)
    missing = {entry.id for entry in from_chronicle.entries} - {entry.id for entry in from_records.entries}
    assert missing == set()


def by_name(self: Writes, decision: Decision) -> AuditEntry | None:
    """The newest write of that name: what `joined_by_name` of the zoo puts back."""
    cause = decision.cause
    named = [
        entry
        for entry in self._by_id.values()
        if (entry.resource, entry.namespace, entry.name) == (cause.resource, cause.namespace, cause.name)
        and (moment_ns(entry.time) or 0) <= decision.time_ns
    ]
    return max(named, key=lambda entry: entry.revision, default=None)


def test_an_edge_joined_by_name_is_found_to_be_false(monkeypatch: pytest.MonkeyPatch) -> None:
    chronicle = chronicle_of("names-are-used-again", "1")
    monkeypatch.setattr(Writes, "waking", by_name)
    assert compared(chronicle).false


def test_a_pod_is_told_from_its_namesakes() -> None:
    """Each of several pods of one name has a timeline of its own: no entry is about another's UID."""
    chronicle = chronicle_of("names-are-used-again", "1")
    live = LiveRecords(chronicle)
    by_path: dict[tuple[str, str], list[ObjectRef]] = {}
    for ref in live.subjects():
        if ref.resource == "pods":
            by_path.setdefault((ref.namespace, ref.name), []).append(ref)
    namesakes = [refs for refs in by_path.values() if len(refs) > 1]
    assert namesakes
    for refs in namesakes:
        for ref in refs:
            timeline = answer(live.evidence(ref), TimelineSpec())
            uids = {
                entry.object.uid
                for entry in timeline.entries
                if entry.object is not None and entry.object.name == ref.name and entry.source != "audit"
            }
            assert uids <= {ref.uid}
