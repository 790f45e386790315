"""What a scheduler's record says that it consulted: which objects, at which revision, which decided."""

from __future__ import annotations

from pathlib import Path

from tests.control.worlds import told
from tests.schedule.test_known import own
from tests.schedule.test_records import cluster, record, views

from fathom.model.decision import Considered, Decision
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.schedule.decide.context import PlacementContext, Policy
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.sim.report.chronicle import Chronicle, Concluded, DecisionMade
from fathom.sim.scenarios.objects import NODES, PODS
from fathom.sim.scenarios.scheduling import QUOTAS, node, pod, quota, run_scheduler
from fathom.sim.world.world import World

NOW = 0


def stored(kind: str, name: str, spec: Obj, *, revision: int, namespace: str = "", **status: object) -> Obj:
    obj = own(kind, name, spec, namespace=namespace, status=dict(status))
    return {**obj, "metadata": {**metadata(obj), "uid": f"uid-{name}", "resourceVersion": str(revision)}}


def test_an_override_is_recorded_with_its_uid_generation_and_revision(tmp_path: Path) -> None:
    known = cluster(2)
    spec = {
        "target": "workload/p0",
        "reason": "works",
        "expiresAfter": "45m",
        "changes": {"avoidNodes": ["n0"]},
    }
    override = stored("SchedulerOverride", "calm", spec, revision=461, namespace="a")
    known.put("SchedulerOverride", None, override)
    (decision,), _, _ = record(known, views(known, 1, cpu="1"), tmp_path)
    assert decision.overrides == (
        Considered("calm", 461, True, "scheduleroverrides.fathom.dev", "a", "uid-calm", 1),
    )


def test_a_quota_is_recorded_as_it_was_in_the_view_though_only_its_status_changed(tmp_path: Path) -> None:
    known = cluster(1)
    limits = {"limits": [{"resources": {"cpu": "1"}}]}
    before = stored("TenantQuota", "a", limits, revision=7)
    known.put("TenantQuota", None, before)
    known.put("TenantQuota", before, stored("TenantQuota", "a", limits, revision=9, used=[]))
    fits, waits = record(known, views(known, 2, cpu="1"), tmp_path)[0]
    name = "tenantquotas.fathom.dev"
    assert fits.quotas == (Considered("a", 9, False, name, "", "uid-a", 1),)
    assert waits.quotas == (Considered("a", 9, True, name, "", "uid-a", 1),)


def test_the_rollout_that_sets_a_policy_is_recorded_beside_it() -> None:
    known = ClusterView()
    known.put("SchedulingPolicy", None, stored("SchedulingPolicy", "v5", {}, revision=3))
    known.put("PolicyRollout", None, stored("PolicyRollout", "to-v5", {"to": "v5"}, revision=4))
    context = PlacementContext(policy=Policy(name="v5", revision=3, rollout="to-v5"))
    listed = known.consulted.under(context).policies
    assert [(each.name, each.revision) for each in listed] == [("v5", 3), ("to-v5", 4)]
    known.put("PolicyRollout", stored("PolicyRollout", "to-v5", {"to": "v5"}, revision=4), None)
    assert [each.name for each in known.consulted.under(context).policies] == ["v5"]


def test_the_built_in_policy_is_no_object() -> None:
    assert ClusterView().consulted.under(PlacementContext()).policies == (Considered("builtin"),)


def about(chronicle: Chronicle, name: str) -> list[Decision]:
    made = [event.decision for event in chronicle.events if isinstance(event, DecisionMade)]
    return [decision for decision in made if decision.subject.name == name]


def test_a_woken_pod_names_the_change_that_woke_it_and_its_outcome_the_pod() -> None:
    chronicle = Chronicle()

    async def story(world: World) -> None:
        run_scheduler(world, "scheduler", names=("default-scheduler",))
        await world.apply(NODES, node("node-1"))
        await world.apply(QUOTAS, quota("default", cpu="1"))
        await world.apply(PODS, pod("first"))
        await world.sleep(2)
        await world.apply(PODS, pod("second"))
        await world.sleep(2)
        raised = await world.apply(QUOTAS, quota("default", cpu="2"))
        placed = Key("default", "second")
        await world.until(
            lambda: bool(lookup(world.get("pods", placed), "spec", "nodeName")),
            within_s=10,
            what="it is bound",
        )
        await world.sleep(1)
        waits, *_, bound = about(chronicle, "second")
        assert waits.quotas[0].decisive, "it waited for quota"
        revision = int(metadata(raised)["resourceVersion"])
        cause = bound.cause
        assert (cause.kind, cause.resource, cause.name, cause.revision) == (
            "event",
            QUOTAS.name,
            "default",
            revision,
        )
        assert max(bound.seen["TenantQuota"].revision, bound.seen["TenantQuota"].applied) >= revision
        outcomes = [event.outcome for event in chronicle.events if isinstance(event, Concluded)]
        (outcome,) = [outcome for outcome in outcomes if outcome.id == bound.id]
        assert outcome.object is not None
        assert (outcome.object.resource, outcome.object.name) == ("pods", "second")
        assert outcome.object.uid == bound.subject.uid
        assert outcome.revision > revision

    told(story, chronicle=chronicle)
