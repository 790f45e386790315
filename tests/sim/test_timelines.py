"""Timelines made from a run's records, compared with what happened in it."""

from __future__ import annotations

import msgspec
import pytest

from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline.answer import answer
from fathom.explain.timeline.timeline import Edge, Timeline, TimelineSpec, decision_id, write_id
from fathom.explain.timeline.writes import Writes
from fathom.model.audit import AuditEntry
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision
from fathom.model.resources import DEPLOYMENTS
from fathom.model.times import SECOND_NS, moment_ns
from fathom.sim.checkers.timelines import FOUND_MIN, ComparedEdges, compare_all
from fathom.sim.report.chronicle import Chronicle, DecisionMade
from fathom.sim.report.live_records import LiveRecords
from fathom.sim.report.object_timeline import ObjectTimelines
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.scenarios.real import SCHEDULERS, deployment, run_real_cluster, until_ready
from fathom.sim.scenarios.rollback import QUOTAS, quota
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import HoldWatch
from fathom.sim.world.scenario import RunPlan, ScenarioRun, plan_of, scenario, sweep
from fathom.sim.world.world import World

RUNS = [
    pytest.param(name, seed, marks=[pytest.mark.full] if seed != "1" else [])
    for name in (
        "rollback-among-others",
        "quota-changes",
        "rollouts",
        "jobs-seen-late",
        "names-are-used-again",
    )
    for seed in ("1", "2", "3")
]


def chronicle_of(name: str, seed: str) -> Chronicle:
    chronicle = Chronicle()
    scenario = SCENARIOS[name]
    result = ScenarioRun(scenario, plan_of(scenario, seed), chronicle=chronicle).run()
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


def test_the_edge_from_a_binding_to_the_agents_first_report_is_recorded() -> None:
    chronicle = chronicle_of("rollback-among-others", "1")
    live, checked = LiveRecords(chronicle), 0
    for subject in live.subjects():
        evidence = live.evidence(subject)
        bindings = [
            entry for entry in evidence.audit if entry.uid == subject.uid and entry.subresource == "binding"
        ]
        reports = [
            record.kept.decision
            for record in evidence.decisions
            if record.kept.decision.subject.uid == subject.uid and record.kept.decision.verdict == "status"
            and record.kept.decision.controller == "agent"
        ]  # fmt: skip
        if not bindings or not reports:
            continue
        bound, report = write_id(bindings[0].revision, subject), decision_id(reports[0].id)
        assert Edge(bound, report, "woke") in answer(evidence, TimelineSpec(fold=False)).edges
        checked += 1
    assert checked > 5


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


def as_retry(event: DecisionMade, of: str) -> DecisionMade:
    cause = WakeCause("retry", decision=of)
    return msgspec.structs.replace(event, decision=msgspec.structs.replace(event.decision, cause=cause))


def test_a_retry_of_what_another_has_decided_is_found_to_be_false() -> None:
    """Each decision names the one before as what it tries again, whoever made that."""
    chronicle = chronicle_of("rollback-among-others", "1")
    before = ""
    for at, event in enumerate(chronicle.events):
        if isinstance(event, DecisionMade):
            chronicle.events[at] = as_retry(event, before)
            before = event.decision.id
    false = compared(chronicle).false
    assert any(edge.partition(": ")[2].count("decision:") == 2 for edge in false), false[:5]


@pytest.mark.full
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


@scenario(Menu(processes=SCHEDULERS[:1]))
async def quota_grows_unheard(world: World) -> None:
    """A pod waits for quota. The quota grows while the scheduler's watch of quotas is held back."""
    run_real_cluster(world, spare=False, events=True)
    await world.apply(QUOTAS, quota("200m"))
    await world.apply(DEPLOYMENTS, deployment("risk-api", 3))
    await until_ready(world, "risk-api", 2)
    await world.sleep(15)
    await world.apply(QUOTAS, quota("10"))
    await until_ready(world, "risk-api", 3)


def test_a_held_watch_shows_between_the_quotas_change_and_the_binding() -> None:
    """The pod is rejected by quota, the quota grows, the cache receives that late, the pod is bound."""
    held = HoldWatch(at_s=10, target=SCHEDULERS[0], match="/tenantquotas", for_s=40)
    chronicle = Chronicle()
    plan = RunPlan(scenario="quota-grows-unheard", seed="1", faults=(held,))
    result = ScenarioRun(quota_grows_unheard, plan, chronicle=chronicle).run()
    sweep()
    assert result.violation is None, result.violation
    live = LiveRecords(chronicle)
    waited = next(
        event.decision.subject
        for event in chronicle.events
        if isinstance(event, DecisionMade) and event.decision.verdict == "unschedulable"
    )
    pod = ObjectRef(waited.resource, waited.namespace, waited.name, waited.uid)
    timeline = answer(live.evidence(pod), TimelineSpec())
    steps = (
        f"replicasets creates pod {pod.name}",
        "scheduler-1 reads its caches",
        "rule TenantQuota rejects",
        f"scheduler-1 finds no node for pod {pod.name}",
        f"default-scheduler reports the Event FailedScheduling of pod {pod.name}",
        "driver sets spec.limits[0].resources.cpu of tenantquota default",
        "scheduler-1 receives revision",
        "scheduler-1 chooses node-",
        f"scheduler-1 binds pod {pod.name} to node-",
    )
    texts = [f"{entry.actor} {entry.text}" for entry in timeline.entries]
    places = [next((at for at, text in enumerate(texts) if text.startswith(step)), -1) for step in steps]
    assert -1 not in places, (steps[places.index(-1)], texts)
    assert places == sorted(places), texts
    grown, received, chosen = (timeline.entries[places[step]] for step in (5, 6, 7))
    assert received.time_ns - grown.time_ns > 10 * SECOND_NS
    causes = {(edge.cause, edge.effect) for edge in timeline.edges}
    assert {(grown.id, received.id), (grown.id, chosen.id)} <= causes | {
        (edge.cause, second.effect)
        for edge in timeline.edges
        for second in timeline.edges
        if edge.effect == second.cause
    }
